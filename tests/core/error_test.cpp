// Mirrors include/attensor/core/error.hpp and core/check.hpp.

#include "attensor/core/error.hpp"

#include <doctest/doctest.h>

#include "attensor/core/check.hpp"

using namespace attensor;

TEST_CASE("errors: all are attensor::Error and std::runtime_error") {
  CHECK(std::is_base_of_v<std::runtime_error, Error>);
  CHECK(std::is_base_of_v<Error, ShapeError>);
  CHECK(std::is_base_of_v<Error, ValueError>);
  CHECK(std::is_base_of_v<Error, IoError>);
}

TEST_CASE("errors: the parts of a message are joined as they are") {
  CHECK_THROWS_WITH_AS(throw_error<ValueError>({"a", "", std::string("b c"), "\n"}), "ab c\n", ValueError);
}

TEST_CASE("shape_text: extents in brackets") {
  CHECK(shape_text(Shape<0>{}) == "[]");
  CHECK(shape_text(Shape{7}) == "[7]");
  CHECK(shape_text(Shape{2, 0, -3}) == "[2,0,-3]");
}

TEST_CASE("check_extent: names function, argument, shape, dimension, and why") {
  const Tensor<float, 4> query(Shape{2, 8, 10, 64}), key(Shape{2, 8, 12, 32});
  CHECK_THROWS_WITH_AS(
      detail::check_extent("scaled_dot_product_attention", "key", key, 3, 64, "the head dimension of query", query),
      "scaled_dot_product_attention: key [2,8,12,32] has 32 in dim 3; expected 64, the head dimension of query "
      "[2,8,10,64]",
      ShapeError);
  CHECK_THROWS_WITH_AS(detail::check_extent("f", "key", key.view(), 0, 3, "the batch"),
                       "f: key [2,8,12,32] has 2 in dim 0; expected 3, the batch", ShapeError);
  CHECK_NOTHROW(detail::check_extent("f", "key", key, 3, 32, "the width", query));
}

TEST_CASE("check_same_shape: names the first dimension that differs") {
  const Tensor<float, 2> a(Shape{2, 3}), b(Shape{2, 4});
  const Tensor<double, 2> c(Shape{2, 3});
  CHECK_THROWS_WITH_AS(detail::check_same_shape("f", "dy", a, "x", b),
                       "f: dy [2,3] has 3 in dim 1; expected 4, the same as x [2,4]", ShapeError);
  CHECK_NOTHROW(detail::check_same_shape("f", "dy", a, "x", c));
}

TEST_CASE("check_value: says what it is and what was expected") {
  CHECK_THROWS_WITH_AS(
      detail::check_value(false, "MultiHeadAttention", "num_heads", Index{3}, "a divisor of embed_dim 4"),
      "MultiHeadAttention: num_heads is 3; expected a divisor of embed_dim 4", ValueError);
  CHECK_THROWS_WITH_AS(detail::check_value(false, "f", "saved", "from elsewhere", "one of its own"),
                       "f: saved is from elsewhere; expected one of its own", ValueError);
  CHECK_NOTHROW(detail::check_value(true, "f", "p", 0.5, "anything"));
}

TEST_CASE("number_text: no zeros at the end") {
  CHECK(detail::number_text(2) == "2");
  CHECK(detail::number_text(0.5) == "0.5");
  CHECK(detail::number_text(100) == "100");
  CHECK(detail::number_text(-1.25) == "-1.25");
  CHECK(detail::number_text(1e-12) == "1e-12");
}

TEST_CASE("check_value: numbers come in their shortest form, and texts may be put together when they are needed") {
  CHECK_THROWS_WITH_AS(detail::check_value(false, "f", "eps", -1e-12, "0 or more"),
                       "f: eps is -1e-12; expected 0 or more", ValueError);
  CHECK_THROWS_WITH_AS(detail::check_value(false, "f", "n", 3, [] { return "a divisor of " + std::to_string(8); }),
                       "f: n is 3; expected a divisor of 8", ValueError);
  bool asked = false;
  detail::check_value(true, "f", "n", 3, [&] {
    asked = true;
    return "";
  });
  CHECK(!asked);
}
