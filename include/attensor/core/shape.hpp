#pragma once
/// \file
/// Extents of a tensor, and arithmetic on them that cannot overflow unnoticed.

#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include "attensor/core/error.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// The extents of a tensor, outermost first: `Shape{2, 3}` is two rows of three.
template <std::size_t Rank>
struct Shape : std::array<Index, Rank> {
  static constexpr std::size_t rank = Rank;
};

template <std::convertible_to<Index>... Extents>
Shape(Extents...) -> Shape<sizeof...(Extents)>;

/// Steps in elements between neighbours along each dimension.
template <std::size_t Rank>
using Strides = std::array<Index, Rank>;

/// The number of elements of a shape. With a size of element, the number of bytes is checked too.
/// \throws ShapeError for a negative extent, or where the count or the bytes exceed what an Index can hold
inline Index checked_count(const char* function, std::span<const Index> extents, Index element_size = 1) {
  constexpr Index largest = std::numeric_limits<Index>::max();
  bool is_empty = false;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] < 0) [[unlikely]] {
      throw_error<ShapeError>({function, ": shape ", shape_text(extents), " has ", std::to_string(extents[d]),
                               " in dim ", std::to_string(d), "; expected 0 or more"});
    }
    is_empty |= extents[d] == 0;
  }
  Index count = 1;  // of the extents that are not 0, since strides are products of some of them
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 0) continue;
    if (extents[d] > largest / element_size / count) [[unlikely]] {
      throw_error<ShapeError>({function, ": shape ", shape_text(extents), " overflows in dim ", std::to_string(d),
                               "; expected at most ", std::to_string(largest), " bytes"});
    }
    count *= extents[d];
  }
  return is_empty ? 0 : count;
}

/// Strides of a row-major tensor without gaps.
template <std::size_t Rank>
constexpr Strides<Rank> row_major_strides(const Shape<Rank>& shape) {
  Strides<Rank> strides{};
  Index step = 1;
  for (std::size_t d = Rank; d-- > 0;) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

}  // namespace attensor::inline ATTENSOR_ISA
