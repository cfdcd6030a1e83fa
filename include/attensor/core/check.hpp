#pragma once
/// \file
/// What public functions check their arguments with. The comparison is inline, the message is built out of line.

#include <charconv>

#include "attensor/core/tensor.hpp"

namespace attensor::inline ATTENSOR_ISA {
namespace detail {

/// "key [2,8,12,32] has 32 in dim 3; expected 64, the head dimension of query [2,8,10,64]"
[[noreturn]] inline void throw_extent(const char* function, const char* argument, std::span<const Index> shape,
                                      std::size_t dim, Index expected, const std::string& reason) {
  throw_error<ShapeError>({function, ": ", argument, " ", shape_text(shape), " has ", std::to_string(shape[dim]),
                           " in dim ", std::to_string(dim), "; expected ", std::to_string(expected), ", ", reason});
}

/// Dimension `dim` of the argument is `expected`. `reason` says why, and `other` is the tensor that it names last.
template <TensorLike X, TensorLike Other>
void check_extent(const char* function, const char* argument, const X& x, std::size_t dim, Index expected,
                  const char* reason, const Other& other) {
  if (x.shape()[dim] != expected) [[unlikely]] {
    throw_extent(function, argument, x.shape(), dim, expected, reason + (" " + shape_text(other.shape())));
  }
}
template <TensorLike X>
void check_extent(const char* function, const char* argument, const X& x, std::size_t dim, Index expected,
                  const char* reason) {
  if (x.shape()[dim] != expected) [[unlikely]]
    throw_extent(function, argument, x.shape(), dim, expected, reason);
}

template <TensorLike X, TensorLike Other>
void check_same_shape(const char* function, const char* argument, const X& x, const char* other_name,
                      const Other& other) {
  static_assert(rank_v<X> == rank_v<Other>);
  for (std::size_t d = 0; d < rank_v<X>; ++d) {
    if (x.shape()[d] != other.shape()[d]) [[unlikely]] {
      throw_extent(function, argument, x.shape(), d, other.shape()[d],
                   std::string("the same as ") + other_name + " " + shape_text(other.shape()));
    }
  }
}

/// A number in the shortest form that reads back as the same.
inline std::string number_text(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

/// `value` of an option is what it may be: "MultiHeadAttention: num_heads is 3; expected a divisor of embed_dim 4".
/// `expected` is a text or, where it has to be put together, a function that gives one: as long as the value holds,
/// nothing is taken from the heap.
template <class Value, class Expected>
void check_value(bool holds, const char* function, const char* argument, const Value& value, const Expected& expected) {
  if (holds) [[likely]]
    return;
  if constexpr (std::is_invocable_v<const Expected&>) {
    check_value(false, function, argument, value, expected());
  } else if constexpr (std::is_floating_point_v<Value>) {
    throw_error<ValueError>({function, ": ", argument, " is ", number_text(value), "; expected ", expected});
  } else if constexpr (std::is_arithmetic_v<Value>) {
    throw_error<ValueError>({function, ": ", argument, " is ", std::to_string(value), "; expected ", expected});
  } else {
    throw_error<ValueError>({function, ": ", argument, " is ", value, "; expected ", expected});
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
