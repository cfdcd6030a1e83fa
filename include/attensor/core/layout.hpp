#pragma once
/// \file
/// Other ways to look at the same elements: slices, transposes, other shapes, and Eigen's matrices; and printing.

#include <ostream>

#include "attensor/core/check.hpp"
#include "attensor/core/creation.hpp"
#include "attensor/core/eigen.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Elements [begin, end) of dimension `dim`, in place.
/// \throws ShapeError if dim or the range lies outside of x
template <Viewable X>
auto slice(X&& x, std::size_t dim, Index begin, Index end) {
  auto view = x.view();
  if (dim >= rank_v<X> || begin < 0 || end < begin || end > x.shape()[dim]) [[unlikely]] {
    throw_error<ShapeError>({"slice: x ", shape_text(x.shape()), " has no range [", std::to_string(begin), ", ",
                             std::to_string(end), ") in dim ", std::to_string(dim), "; expected 0 <= begin <= end <= ",
                             dim < rank_v<X> ? std::to_string(x.shape()[dim]) : "the extent of one of its dimensions"});
  }
  auto shape = view.shape();
  shape[dim] = end - begin;
  return decltype(view)(detail::advanced(view.data(), begin * view.strides()[dim]), shape, view.strides());
}

/// x under another shape with as many elements: a view, or the tensor itself when it is a temporary.
template <TensorLike X, std::size_t NewRank>
auto reshape(X&& x, const Shape<NewRank>& shape) {
  return std::forward<X>(x).reshape(shape);
}

/// Dimensions A and B swapped, in place. The last dimension stays last, since it is the contiguous one.
template <std::size_t A, std::size_t B, Viewable X>
  requires(A + 1 < rank_v<X> && B + 1 < rank_v<X>)
auto transpose(X&& x) {
  auto view = x.view();
  auto shape = view.shape();
  auto strides = view.strides();
  std::swap(shape[A], shape[B]);
  std::swap(strides[A], strides[B]);
  return decltype(view)(view.data(), shape, strides);
}

/// A copy with dimensions a and b swapped. transpose<A, B>(x) is a view where the last dimension stays last.
/// \throws ShapeError if x has no such dimensions
template <TensorLike X>
Tensor<scalar_t<X>, rank_v<X>> transpose(const X& x, std::size_t a, std::size_t b) {
  constexpr std::size_t rank = rank_v<X>;
  if (a >= rank || b >= rank) [[unlikely]] {
    throw_error<ShapeError>({"transpose: x ", shape_text(x.shape()), " has no dims ", std::to_string(a), " and ",
                             std::to_string(b), "; expected dims below ", std::to_string(rank)});
  }
  auto shape = x.shape();
  std::swap(shape[a], shape[b]);
  auto y = empty<scalar_t<X>>(shape);
  const auto in = read(x);
  Strides<rank> position{};
  for (Index i = 0; i < y.size(); ++i) {
    Strides<rank> from = position;
    std::swap(from[a], from[b]);
    y.data()[i] = in.data()[detail::offset_of(in.strides(), from)];
    for (std::size_t d = rank; d-- > 0;) {
      if (++position[d] < shape[d]) break;
      position[d] = 0;
    }
  }
  return y;
}

/// x as an Eigen matrix, in place: [rows, last dimension], where rows run over all other dimensions. Any Eigen
/// expression may read it, and may be assigned to it if x is writable.
/// \throws ShapeError if no single step leads from row to row
template <Viewable X>
  requires Scalar<scalar_t<X>>
auto matrix(X&& x) {
  const auto view = x.view();
  using T = std::remove_reference_t<decltype(*view.data())>;
  using Matrix = Eigen::Matrix<scalar_t<X>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Constness = std::conditional_t<std::is_const_v<T>, const Matrix, Matrix>;
  const auto all = detail::rows(view);
  if (!all.is_uniform()) [[unlikely]] {
    throw_error<ShapeError>({"matrix: x ", shape_text(x.shape()), " has strides ", shape_text(view.strides()),
                             "; expected rows at equal steps (contiguous(x) makes a copy that has them)"});
  }
  return Eigen::Map<Constness, Eigen::Unaligned, Eigen::OuterStride<>>(view.data(), all.count(), all.length(),
                                                                       Eigen::OuterStride<>(all.row_stride()));
}

namespace detail {

template <class T, std::size_t Rank>
void print(std::ostream& out, const View<const T, Rank>& x, int depth) {
  if constexpr (Rank == 0) {
    if constexpr (sizeof(T) == 1) {
      out << static_cast<int>(*x.data());  // a number, not a character
    } else {
      out << *x.data();
    }
  } else {
    out << '{';
    for (Index i = 0; i < x.extent(0); ++i) {
      if (i > 0) out << (Rank == 1 ? ", " : ",\n" + std::string(static_cast<std::size_t>(depth), ' '));
      if constexpr (Rank == 1) {
        print(out, View<const T, 0>(&x[i], Shape<0>{}), depth + 1);
      } else {
        print(out, x[i], depth + 1);
      }
    }
    out << '}';
  }
}

}  // namespace detail

/// Nested braces, as a tensor is written in a program.
template <TensorLike X>
std::ostream& operator<<(std::ostream& out, const X& x) {
  detail::print(out, read(x), 1);
  return out;
}

}  // namespace attensor::inline ATTENSOR_ISA
