#pragma once
/// \file
/// Heads of a merged projection, without moving anything:
///
///     split_heads: [B, S, H * D] seen as [B, H, S, D]          merge_heads: back, writing [B, S, H * D]

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// The heads of x [B, S, H * D] as a view [B, H, S, D]; writable where x is.
/// \throws ShapeError if the last dimension is not divisible by num_heads
template <Viewable<3> X>
auto split_heads(X&& x, Index num_heads) {
  const auto view = x.view();
  const Index width = view.extent(2);
  if (num_heads < 1 || width % num_heads != 0) [[unlikely]] {
    throw_error<ShapeError>({"split_heads: x ", shape_text(view.shape()), " has ", std::to_string(width),
                             " in dim 2; expected a multiple of num_heads ", std::to_string(num_heads)});
  }
  const Index head_dim = width / num_heads;
  using T = std::remove_reference_t<decltype(*view.data())>;
  return View<T, 4>(view.data(), Shape{view.extent(0), num_heads, view.extent(1), head_dim},
                    Strides<4>{view.stride(0), head_dim, view.stride(1), 1});
}

/// The heads x [B, H, S, D] side by side: [B, S, H * D].
template <TensorLike<4> X>
auto merge_heads(const X& x) {
  const auto in = read(x);
  auto y = empty<scalar_t<X>>({in.extent(0), in.extent(2), in.extent(1) * in.extent(3)});
  const auto out = split_heads(y, std::max<Index>(1, in.extent(1)));
  const auto from = detail::rows(in);
  const auto to = detail::rows(out);
  for (Index row = 0; row < (y.size() > 0 ? from.count() : 0); ++row) std::copy_n(from[row], from.length(), to[row]);
  return y;
}

}  // namespace attensor::inline ATTENSOR_ISA
