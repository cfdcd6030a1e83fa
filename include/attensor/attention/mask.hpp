#pragma once
/// \file
/// Boolean masks, true = may be attended to, all of rank 4 so that they combine with `&`.

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Hides padding from every query: [B, 1, 1, S], true where ids [B, S] differ from padding_idx.
template <TensorLike<2> Ids>
Tensor<bool, 4> padding_mask(const Ids& ids, std::int64_t padding_idx = 0) {
  static_assert(std::same_as<scalar_t<Ids>, std::int64_t>, "attensor: ids are std::int64_t");
  const Index batch = ids.shape()[0], length = ids.shape()[1];
  auto mask = empty<bool>({batch, 1, 1, length});
  bool* next = mask.data();
  detail::for_each_row(read(ids), [&](const std::int64_t* row, Index n) {
    for (Index i = 0; i < n; ++i) *next++ = row[i] != padding_idx;
  });
  return mask;
}

/// Hides later keys from each query: [1, 1, n, n], true where key <= query.
inline Tensor<bool, 4> causal_mask(Index n) {
  auto mask = empty<bool>({1, 1, n, n});
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) mask(0, 0, i, j) = j <= i;
  }
  return mask;
}

/// Both hold: masks broadcast against each other where an extent is 1.
/// \throws ShapeError where extents differ and neither is 1
template <TensorLike<4> A, TensorLike<4> B>
  requires std::same_as<scalar_t<A>, bool> && std::same_as<scalar_t<B>, bool>
Tensor<bool, 4> operator&(const A& a, const B& b) {
  Shape<4> shape{};
  Strides<4> a_step = a.strides(), b_step = b.strides();
  for (std::size_t d = 0; d < 4; ++d) {
    const Index in_a = a.shape()[d], in_b = b.shape()[d];
    if (in_a != in_b && in_a != 1 && in_b != 1) [[unlikely]] {
      throw_error<ShapeError>({"operator&: mask ", shape_text(a.shape()), " has ", std::to_string(in_a), " in dim ",
                               std::to_string(d), "; expected ", std::to_string(in_b), " or 1, to broadcast with mask ",
                               shape_text(b.shape())});
    }
    shape[d] = in_a == 1 ? in_b : in_a;
    if (in_a == 1) a_step[d] = 0;
    if (in_b == 1) b_step[d] = 0;
  }
  auto both = empty<bool>(shape);
  bool* next = both.data();
  for (Index batch = 0; batch < shape[0]; ++batch) {
    for (Index head = 0; head < shape[1]; ++head) {
      for (Index i = 0; i < shape[2]; ++i) {
        for (Index j = 0; j < shape[3]; ++j) {
          const Strides<4> at = {batch, head, i, j};
          *next++ = a.data()[detail::offset_of(a_step, at)] && b.data()[detail::offset_of(b_step, at)];
        }
      }
    }
  }
  return both;
}

}  // namespace attensor::inline ATTENSOR_ISA
