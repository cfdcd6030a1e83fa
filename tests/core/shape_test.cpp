// Mirrors include/attensor/core/shape.hpp.

#include "attensor/core/shape.hpp"

#include <doctest/doctest.h>

using namespace attensor;

namespace {
constexpr Index largest = std::numeric_limits<Index>::max();
}

TEST_CASE("Shape: rank and extents come from the braces") {
  constexpr Shape shape{2, 3, 4};
  static_assert(std::is_same_v<decltype(shape), const Shape<3>>);
  CHECK(shape[2] == 4);
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{}.size() == 0);
}

TEST_CASE("checked_count: the product of the extents") {
  CHECK(checked_count("f", Shape{2, 3, 4}) == 24);
  CHECK(checked_count("f", Shape<0>{}) == 1);
  CHECK(checked_count("f", Shape{5, 0, 7}) == 0);
  CHECK(checked_count("f", Shape{largest}) == largest);
}

TEST_CASE("checked_count: zero extents are legal beside others whose strides can be counted") {
  CHECK(checked_count("f", Shape{largest, 0}) == 0);
  CHECK(checked_count("f", Shape{0, Index{1} << 29, Index{1} << 29}, 8) == 0);
  CHECK_THROWS_AS(checked_count("f", Shape{0, largest, largest}, 8), ShapeError);
}

TEST_CASE("checked_count: what overflows is an error that names the dimension, also in bytes") {
  CHECK_THROWS_WITH_AS(
      checked_count("f", Shape{largest, 2}),
      "f: shape [9223372036854775807,2] overflows in dim 1; expected at most 9223372036854775807 bytes", ShapeError);
  CHECK_THROWS_AS(checked_count("f", Shape{Index{1} << 32, Index{1} << 31}), ShapeError);  // 2^63
  CHECK_THROWS_AS(checked_count("f", Shape{Index{1} << 32, Index{1} << 32}), ShapeError);  // wraps to 0
  CHECK_THROWS_AS(checked_count("f", Shape{3, Index{6148914691236517206}}), ShapeError);   // wraps to 2
  CHECK(checked_count("f", Shape{Index{1} << 31, Index{1} << 29}, 4) == Index{1} << 60);
  CHECK_THROWS_AS(checked_count("f", Shape{Index{1} << 31, Index{1} << 30}, 4), ShapeError);
  CHECK_THROWS_AS(checked_count("f", Shape{largest}, 2), ShapeError);
}

TEST_CASE("checked_count: a negative extent is an error, also where the product would be positive or zero") {
  CHECK_THROWS_WITH_AS(checked_count("zeros", Shape{2, -3}), "zeros: shape [2,-3] has -3 in dim 1; expected 0 or more",
                       ShapeError);
  CHECK_THROWS_AS(checked_count("f", Shape{-2, -3}), ShapeError);
  CHECK_THROWS_AS(checked_count("f", Shape{0, -1}), ShapeError);
  CHECK_THROWS_AS(checked_count("f", Shape{std::numeric_limits<Index>::min()}), ShapeError);
}

TEST_CASE("row_major_strides: the last dimension steps by one") {
  CHECK(row_major_strides(Shape{2, 3, 4}) == Strides<3>{12, 4, 1});
  CHECK(row_major_strides(Shape{5}) == Strides<1>{1});
}
