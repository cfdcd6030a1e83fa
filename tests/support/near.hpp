#pragma once
/// \file
/// Comparisons of tensors, written so that a NaN fails and so that a failure says where and by how much.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>

#include "attensor/core/creation.hpp"

namespace attensor::inline ATTENSOR_ISA {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// |got - want| <= tolerance * (1 + |want|). Infinities are near themselves alone, a NaN is near nothing.
inline bool is_near(double got, double want, double tolerance) {
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance * (1 + std::abs(want));
}

namespace detail {

/// "(1, 0, 2)", the position of element i in row-major order.
template <std::size_t Rank>
std::string place_text(const Shape<Rank>& shape, Index i) {
  std::string text;
  for (std::size_t d = Rank; d-- > 0;) {
    text = std::to_string(i % shape[d]) + (d + 1 < Rank ? ", " : "") + text;
    i /= shape[d];
  }
  return '(' + text + ')';
}

template <class Got, class Want>
std::string far_text(const std::string& position, Got got, Want want, double tolerance) {
  std::ostringstream text;
  text.precision(17);
  text << "at " << position << " got " << got << ", want " << want << ", difference "
       << static_cast<double>(got) - static_cast<double>(want) << ", tolerance " << tolerance << " * (1 + |want|)";
  return text.str();
}

}  // namespace detail

/// Empty if all elements are near, else what is wrong.
template <TensorLike Got, TensorLike Want>
std::string difference(const Got& got, const Want& want, double tolerance) {
  static_assert(rank_v<Got> == rank_v<Want>);
  if (got.shape() != want.shape()) {
    return "got shape " + shape_text(got.shape()) + ", want " + shape_text(want.shape());
  }
  const auto g = contiguous(got);
  const auto w = contiguous(want);
  Index far = 0;
  std::string first;
  for (Index i = 0; i < g.size(); ++i) {
    if (is_near(static_cast<double>(g.data()[i]), static_cast<double>(w.data()[i]), tolerance)) continue;
    if (far++ == 0) {
      first = detail::far_text(detail::place_text(g.shape(), i), g.data()[i], w.data()[i], tolerance);
    }
  }
  if (far == 0) return {};
  return std::to_string(far) + " of " + std::to_string(g.size()) + " elements of " + shape_text(g.shape()) +
         ", first " + first;
}

template <class Got, class Want>
  requires std::is_arithmetic_v<Got> && std::is_arithmetic_v<Want>
std::string difference(Got got, Want want, double tolerance) {
  if (is_near(static_cast<double>(got), static_cast<double>(want), tolerance)) return {};
  return detail::far_text("()", got, want, tolerance);
}

/// Same shape and the same bits: 0 differs from -0, and a NaN equals the same NaN.
template <TensorLike A, TensorLike B>
bool bitwise_equal(const A& a, const B& b) {
  static_assert(std::same_as<scalar_t<A>, scalar_t<B>> && rank_v<A> == rank_v<B>);
  if (a.shape() != b.shape()) return false;
  const auto x = contiguous(a);
  const auto y = contiguous(b);
  return x.size() == 0 ||
         std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(scalar_t<A>)) == 0;
}

template <Scalar T>
bool bitwise_equal(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Neither a NaN nor an infinity.
template <TensorLike X>
bool all_finite(const X& x) {
  const auto y = contiguous(x);
  return std::all_of(y.data(), y.data() + y.size(), [](auto element) { return std::isfinite(element); });
}

}  // namespace attensor::inline ATTENSOR_ISA

/// CHECK_NEAR(got, want, tolerance): all elements are near, and of the same shape; tensors or numbers.
#define CHECK_NEAR(...)                                                          \
  do {                                                                           \
    const std::string attensor_difference = ::attensor::difference(__VA_ARGS__); \
    CHECK_MESSAGE(attensor_difference.empty(), attensor_difference);             \
  } while (false)
