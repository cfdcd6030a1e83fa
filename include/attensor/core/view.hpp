#pragma once
/// \file
/// View looks at elements that somebody else owns: row-major, with its rank known at compile time.

#include <algorithm>
#include <cassert>
#include <complex>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "attensor/core/shape.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// What networks compute in.
template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, double>;

/// Scalar, or std::complex<double>: what derivatives can be checked with by a complex step.
template <class T>
concept Number = Scalar<T> || std::same_as<T, std::complex<double>>;

/// What a tensor can hold: numbers, ids, masks.
template <class T>
concept Element = std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T> && !std::is_const_v<T>;

namespace detail {

template <std::size_t Rank>
constexpr Index offset_of(const Strides<Rank>& strides, const Strides<Rank>& position) {
  Index offset = 0;
  for (std::size_t d = 0; d < Rank; ++d) offset += position[d] * strides[d];
  return offset;
}

/// data + offset; an empty tensor has no data, and stays without.
template <class T>
constexpr T* advanced(T* data, Index offset) {
  return data ? data + offset : nullptr;
}

template <std::size_t Rank>
bool is_inside(const Shape<Rank>& shape, const Strides<Rank>& position) {
  for (std::size_t d = 0; d < Rank; ++d) {
    if (position[d] < 0 || position[d] >= shape[d]) return false;
  }
  return true;
}

}  // namespace detail

/// Elements that something else owns: a pointer, extents and strides in elements. The last dimension is contiguous.
/// `View<const T, Rank>` is read-only. Copying a View copies where it looks, never elements.
template <class T, std::size_t Rank>
class View {
 public:
  using value_type = std::remove_const_t<T>;
  static constexpr std::size_t rank = Rank;

  View() = default;
  /// A row-major array without gaps.
  View(T* data, const Shape<Rank>& shape) : View(data, shape, row_major_strides(shape)) {}
  /// \throws ShapeError for a negative extent, or where the last dimension is not contiguous
  View(T* data, const Shape<Rank>& shape, const Strides<Rank>& strides)
      : data_(data), shape_(shape), strides_(strides) {
    checked_count("View", shape, sizeof(T));
    if constexpr (Rank > 0) {
      if (strides[Rank - 1] != 1 && shape[Rank - 1] > 1) [[unlikely]] {
        throw_error<ShapeError>({"View: strides ", shape_text(strides), " have ", std::to_string(strides[Rank - 1]),
                                 " in dim ", std::to_string(Rank - 1),
                                 "; expected 1, since the last dimension is contiguous"});
      }
    }
  }
  /// A writable view may be read.
  template <std::same_as<value_type> U>
    requires std::is_const_v<T>
  View(const View<U, Rank>& other) : data_(other.data()), shape_(other.shape()), strides_(other.strides()) {}

  T* data() const { return data_; }
  const Shape<Rank>& shape() const { return shape_; }
  const Strides<Rank>& strides() const { return strides_; }
  Index extent(std::size_t dim) const {
    assert(dim < Rank);
    return shape_[dim];
  }
  Index stride(std::size_t dim) const {
    assert(dim < Rank);
    return strides_[dim];
  }
  Index size() const {
    Index count = 1;
    for (const Index extent : shape_) count *= extent;
    return count;
  }
  /// Whether the elements lie in row-major order without gaps; so do none at all.
  bool is_contiguous() const {
    if (size() == 0) return true;
    Index step = 1;
    for (std::size_t d = Rank; d-- > 0;) {
      if (shape_[d] != 1 && strides_[d] != step) return false;
      step *= shape_[d];
    }
    return true;
  }
  View view() const { return *this; }

  template <std::convertible_to<Index>... I>
    requires(sizeof...(I) == Rank)
  T& operator()(I... i) const {
    const Strides<Rank> position{static_cast<Index>(i)...};
    assert(detail::is_inside(shape_, position) && "attensor: index out of range");
    return data_[detail::offset_of(strides_, position)];
  }

  /// A view of one rank less, or the element of a vector.
  decltype(auto) operator[](Index i) const {
    assert(i >= 0 && i < shape_[0] && "attensor: index out of range");
    if constexpr (Rank == 1) {
      return static_cast<T&>(data_[i * strides_[0]]);
    } else {
      View<T, Rank - 1> inner;
      inner.data_ = detail::advanced(data_, i * strides_[0]);
      std::copy_n(shape_.begin() + 1, Rank - 1, inner.shape_.begin());
      std::copy_n(strides_.begin() + 1, Rank - 1, inner.strides_.begin());
      return inner;
    }
  }

  /// The same elements under another shape; the elements must be contiguous.
  template <std::size_t NewRank>
  View<T, NewRank> reshape(const Shape<NewRank>& shape) const {
    if (!is_contiguous() || checked_count("reshape", shape) != size()) [[unlikely]] {
      throw_error<ShapeError>({"reshape: x ", shape_text(shape_), " has ", std::to_string(size()),
                               is_contiguous() ? "" : " not contiguous",
                               " elements; expected a shape of as many contiguous ones, got ", shape_text(shape)});
    }
    return {data_, shape};
  }

 private:
  template <class, std::size_t>
  friend class View;

  T* data_ = nullptr;
  Shape<Rank> shape_{};
  Strides<Rank> strides_{};
};

}  // namespace attensor::inline ATTENSOR_ISA
