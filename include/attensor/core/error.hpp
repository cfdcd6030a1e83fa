#pragma once
/// \file
/// Errors: what is thrown, and the one form that all messages have.
///
///     function: argument [shape] has 32 in dim 3; expected 64, the head dimension of query [2,8,10,64]

#include <cstddef>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "attensor/core/isa.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Extents, offsets and counts. Signed and 64 bits wide, like Eigen's.
using Index = std::ptrdiff_t;

/// The base of everything that attensor throws (std::bad_alloc passes through as itself).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes that do not fit together, or that no tensor can have.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A value outside of what a function takes.
class ValueError : public Error {
 public:
  using Error::Error;
};

/// A file that cannot be read or written, or whose contents are not what its format asks for.
class IoError : public Error {
 public:
  using Error::Error;
};

/// "[2,8,10,64]"
inline std::string shape_text(std::span<const Index> extents) {
  std::string text = "[";
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (d > 0) text += ',';
    text += std::to_string(extents[d]);
  }
  return text + ']';
}

/// Kept out of line, so that the functions that check stay small.
template <class E>
#if defined(__GNUC__)
[[noreturn, gnu::noinline, gnu::cold]]
#else
[[noreturn]]
#endif
void throw_error(std::initializer_list<std::string_view> parts) {
  std::string message;
  for (const std::string_view part : parts) message += part;
  throw E(message);
}

}  // namespace attensor::inline ATTENSOR_ISA
