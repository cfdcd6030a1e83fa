#pragma once
/// \file
/// Rows of a table, looked up by id, and the derivative with respect to the table:
///
///     y[..., :] = weight[ids[...], :]            dweight[v, :] = sum over positions with id v of dy[..., :]
///
/// The row `padding_idx` is looked up like any other, but gets no gradient, as in PyTorch.

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/parallel.hpp"
#include "attensor/core/row.hpp"

namespace attensor::inline ATTENSOR_ISA {

struct EmbeddingOptions {
  Index padding_idx = -1;  ///< the id whose row gets no gradient; -1: none
};

namespace detail {

/// "[1,4]": the indices of the n-th element of a row-major tensor.
template <std::size_t Rank>
std::string position_text(const Shape<Rank>& shape, Index n) {
  Shape<Rank> position{};
  for (std::size_t d = Rank; d-- > 0;) {
    position[d] = n % shape[d];
    n /= shape[d];
  }
  return shape_text(position);
}

/// All ids lie in [0, vocab_size): looked at before anything is read.
template <TensorLike Ids>
void check_ids(const char* function, const Ids& ids, Index vocab_size) {
  static_assert(std::same_as<scalar_t<Ids>, std::int64_t>, "attensor: ids are std::int64_t");
  Index n = 0;
  for_each_row(read(ids), [&](const std::int64_t* row, Index length) {
    for (Index i = 0; i < length; ++i, ++n) {
      if (row[i] < 0 || row[i] >= vocab_size) [[unlikely]] {
        throw_error<ValueError>({function, ": ids ", shape_text(ids.shape()), " has ", std::to_string(row[i]), " at ",
                                 position_text(ids.shape(), n), "; expected an id in [0, ", std::to_string(vocab_size),
                                 "), the rows of weight"});
      }
    }
  });
}

template <std::size_t Rank>
Shape<Rank + 1> appended(const Shape<Rank>& shape, Index extent) {
  Shape<Rank + 1> longer{};
  std::copy_n(shape.begin(), Rank, longer.begin());
  longer[Rank] = extent;
  return longer;
}

}  // namespace detail

/// Looks up the rows of `weight` for all ids.
///
/// \param ids     [...], std::int64_t
/// \param weight  [V, D]
/// \return        [..., D]
/// \throws ValueError for an id outside of [0, V), naming it and its position
template <TensorLike Ids, TensorLike<2> W>
auto embedding(const Ids& ids, const W& weight) {
  using T = scalar_t<W>;
  const Index dim = weight.shape()[1];
  detail::check_ids("embedding", ids, weight.shape()[0]);
  auto y = empty<T>(detail::appended(ids.shape(), dim));
  T* next = y.data();
  detail::for_each_row(read(ids), [&](const std::int64_t* row, Index length) {
    for (Index i = 0; i < length; ++i) next = std::copy_n(weight.data() + row[i] * weight.strides()[0], dim, next);
  });
  return y;
}

/// The derivative of sum(embedding(ids, weight) * dy) with respect to weight: [vocab_size, D], fresh. Ids that occur
/// twice add up, in the order of their positions.
/// \throws ValueError for an id outside of [0, vocab_size)
/// \throws ShapeError if dy is not [..., D]
template <TensorLike DY, TensorLike Ids>
auto embedding_backward(const DY& dy, const Ids& ids, Index vocab_size, const EmbeddingOptions& options = {}) {
  static_assert(rank_v<DY> == rank_v<Ids> + 1);
  using T = scalar_t<DY>;
  detail::check_ids("embedding_backward", ids, vocab_size);
  detail::check_value(options.padding_idx >= -1 && options.padding_idx < std::max<Index>(vocab_size, 1),
                      "embedding_backward", "padding_idx", options.padding_idx,
                      [&] { return "an id below " + std::to_string(vocab_size) + ", or -1 for none"; });
  for (std::size_t d = 0; d < rank_v<Ids>; ++d) {
    detail::check_extent("embedding_backward", "dy", dy, d, ids.shape()[d], "as in ids", ids);
  }
  const Index dim = dy.shape()[rank_v<Ids>];
  auto dweight = zeros<T>({vocab_size, dim});
  const auto grads = detail::rows(read(dy));
  const Tensor<std::int64_t, rank_v<Ids>> flat = contiguous(ids);
  // Columns go to the threads, so that each sum has the order of the positions.
  parallel_chunks(dim, std::max<Index>(64, detail::grain_for(flat.size())), [&](Index begin, Index end) {
    for (Index i = 0; i < flat.size(); ++i) {
      const Index id = flat.data()[i];
      if (id == options.padding_idx) continue;
      const T* from = grads[i];
      T* to = dweight.data() + id * dim;
      for (Index j = begin; j < end; ++j) to[j] += from[j];
    }
  });
  return dweight;
}

}  // namespace attensor::inline ATTENSOR_ISA
