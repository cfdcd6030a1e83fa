// Mirrors include/attensor/core/creation.hpp.

#include "attensor/core/creation.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE("creation: zeros, ones, full and empty have the shape and the values asked for") {
  CHECK(bitwise_equal(zeros<float>({2, 2}), Tensor<float, 2>{{0, 0}, {0, 0}}));
  CHECK(bitwise_equal(ones<double>(Shape{3}), Tensor<double, 1>{1, 1, 1}));
  CHECK(bitwise_equal(full<std::int64_t>({2}, -7), Tensor<std::int64_t, 1>{-7, -7}));
  CHECK(empty<float>({4, 0, 5}).shape() == Shape{4, 0, 5});
  CHECK(empty<float>({4, 5}).size() == 20);
  CHECK_THROWS_AS(zeros<float>({2, -1}), ShapeError);
}

TEST_CASE("creation: *_like takes shape and type from tensors and views") {
  const Tensor<double, 2> x = {{1, 2, 3}, {4, 5, 6}};
  CHECK(bitwise_equal(zeros_like(x), zeros<double>({2, 3})));
  CHECK(bitwise_equal(ones_like(slice(x, 1, 0, 2)), ones<double>({2, 2})));
  CHECK(empty_like(x[0]).shape() == Shape{3});
}

TEST_CASE("to: converts every element of any view") {
  const Tensor<double, 2> x = {{1.5, -2, 3}, {4, 5, 1e300}};
  const auto y = to<float>(slice(x, 1, 0, 2));
  CHECK(bitwise_equal(y, Tensor<float, 2>{{1.5f, -2}, {4, 5}}));
  CHECK(to<float>(x)(1, 2) == std::numeric_limits<float>::infinity());
  CHECK(bitwise_equal(to<std::int64_t>(Tensor<bool, 1>{true, false}), Tensor<std::int64_t, 1>{1, 0}));
  CHECK(to<float>(Tensor<double, 0>(Shape<0>{})).size() == 1);
  CHECK(to<float>(Tensor<double, 2>(Shape{0, 2})).shape() == Shape{0, 2});
}

TEST_CASE("contiguous: a copy, also of what is contiguous") {
  const Tensor<float, 1> x = {1, 2};
  CHECK(contiguous(x).data() != x.data());
  CHECK(bitwise_equal(contiguous(x), x));
}

TEST_CASE("normal: moments, and float is double rounded") {
  Rng rng(5), again(5);
  const auto x = normal<double>({200000}, rng, {.mean = 3, .stddev = 2});
  double sum = 0, squares = 0;
  for (Index i = 0; i < x.size(); ++i) {
    sum += x(i);
    squares += (x(i) - 3) * (x(i) - 3);
  }
  CHECK_NEAR(sum / 200000, 3.0, 0.01);  // four standard errors are 0.018
  CHECK_NEAR(squares / 200000, 4.0, 0.02);
  CHECK(bitwise_equal(normal<float>({200000}, again, {.mean = 3, .stddev = 2}), to<float>(x)));
}

TEST_CASE("uniform: stays in its range and fills it") {
  Rng rng(6);
  const auto x = uniform<double>({100000}, rng, {.low = -1, .high = 3});
  const auto [low, high] = std::minmax_element(x.data(), x.data() + x.size());
  CHECK(*low >= -1);
  CHECK(*high < 3);
  CHECK(*low < -0.999);
  CHECK(*high > 2.999);
}
