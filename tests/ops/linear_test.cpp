// Mirrors include/attensor/ops/linear.hpp.

#include "attensor/ops/linear.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/complex_step.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

/// y = x W^T + b in loops.
template <class T>
Tensor<double, 2> wanted(const Tensor<T, 2>& x, const Tensor<T, 2>& weight, const Tensor<T, 1>& bias) {
  auto y = zeros<double>({x.extent(0), weight.extent(0)});
  for (Index i = 0; i < y.extent(0); ++i) {
    for (Index j = 0; j < y.extent(1); ++j) {
      for (Index k = 0; k < x.extent(1); ++k)
        y(i, j) += static_cast<double>(x(i, k)) * static_cast<double>(weight(j, k));
      if (!bias.empty()) y(i, j) += static_cast<double>(bias(j));
    }
  }
  return y;
}

const auto linear_of = [](const auto& x, const auto& weight, const auto& bias) { return linear(x, weight, bias); };
const auto gradients = [](const auto& dy, const auto& x, const auto& weight, const auto&) {
  auto grads = linear_backward(dy, x, weight);
  return std::tuple{std::move(grads.x), std::move(grads.weight), std::move(grads.bias)};
};

}  // namespace

TEST_CASE_TEMPLATE("linear: x W^T + b over all tails, with and without bias", T, float, double) {
  const double tolerance = std::is_same_v<T, float> ? 3e-5 : 1e-13;
  for_random_cases(40, [&](Rng& rng, Index in) {
    const auto x = normal<T>({awkward_size(rng), in}, rng);
    const auto weight = normal<T>({awkward_size(rng), in}, rng);
    const auto bias = normal<T>({weight.extent(0)}, rng);
    CHECK_NEAR(linear(x, weight, bias), wanted(x, weight, bias), tolerance);
    CHECK_NEAR(linear(x, weight), wanted(x, weight, {}), tolerance);
  });
}

TEST_CASE("linear: takes any rank, and rows at any step") {
  Rng rng(1);
  const auto wide = normal<float>({2, 3, 9}, rng);
  const auto weight = normal<float>({5, 7}, rng);
  const auto bias = normal<float>({5}, rng);
  const auto x = slice(wide, 2, 1, 8);
  const auto y = linear(x, weight, bias);
  CHECK(y.shape() == Shape{2, 3, 5});
  CHECK(bitwise_equal(y, linear(contiguous(x), weight, bias)));
  const auto swapped = transpose<0, 1>(x);  // rows that no single step leads through
  const auto z = linear(swapped, weight, bias);
  for (Index i = 0; i < 2; ++i) {
    for (Index j = 0; j < 3; ++j) CHECK(bitwise_equal(z[j][i], y[i][j]));
  }
  const auto big_weight = normal<float>({6, 10}, rng);
  const auto part = slice(slice(big_weight, 1, 2, 9), 0, 1, 6);
  CHECK(bitwise_equal(linear(x, part, bias), linear(x, contiguous(part), bias)));
}

TEST_CASE_TEMPLATE("linear: a row has the same bits alone, in any company and at any place", T, float, double) {
  for_random_cases(25, [](Rng& rng, Index in) {
    const Index rows = random_between(rng, 2, 40), out = awkward_size(rng);
    const Index depth = rng.below(4) == 0 ? 320 + in : in;  // also over more than one block of depth
    const auto x = normal<T>({rows, depth}, rng), weight = normal<T>({out, depth}, rng);
    const auto bias = normal<T>({out}, rng);
    const auto y = linear(x, weight, bias);
    bool same = true;
    for (Index row = 0; row < rows; ++row) {
      same = same && bitwise_equal(linear(slice(x, 0, row, row + 1), weight, bias)[0], y[row]);
    }
    CHECK(same);
    const Index begin = random_between(rng, 0, rows - 1);
    CHECK(bitwise_equal(linear(slice(x, 0, begin, rows), weight, bias), slice(y, 0, begin, rows)));
  });
}

TEST_CASE("linear: gradients match finite differences") {
  for_random_cases(25, [](Rng& rng, Index in) {
    const auto shape = random_shape<3>(rng, {.last = in, .largest = 4});
    const Index out = random_between(rng, 1, 9);
    check_gradients(linear_of, gradients, normal<double>(shape, rng), normal<double>({out, in}, rng),
                    normal<double>({out}, rng));
  });
}

TEST_CASE("linear: gradients match complex steps") {
  for_random_cases(10, [](Rng& rng) {
    const Index in = random_between(rng, 1, 9), out = random_between(rng, 1, 9);
    check_complex_step(linear_of, gradients, rng, normal<double>({3, in}, rng), normal<double>({out, in}, rng),
                       normal<double>({out}, rng));
  });
}

TEST_CASE("linear: complex numbers are not conjugated") {
  const Tensor<Complex, 2> i = {{Complex(0, 1)}};
  CHECK(linear(i, i)(0, 0) == Complex(-1, 0));
}

TEST_CASE("linear: without inputs y is the bias, without rows or outputs it is empty") {
  const Tensor<float, 1> bias = {1, 2, 3};
  CHECK(bitwise_equal(linear(zeros<float>({2, 0}), zeros<float>({3, 0}), bias),
                      (Tensor<float, 2>{{1, 2, 3}, {1, 2, 3}})));
  CHECK(linear(zeros<float>({0, 4}), zeros<float>({3, 4}), bias).shape() == Shape{0, 3});
  CHECK(linear(zeros<float>({2, 4}), zeros<float>({0, 4})).shape() == Shape{2, 0});
  const auto grads = linear_backward(zeros<float>({0, 3}), zeros<float>({0, 4}), zeros<float>({3, 4}));
  CHECK(bitwise_equal(grads.weight, zeros<float>({3, 4})));
}

TEST_CASE("linear: a width that does not fit is named") {
  const auto x = zeros<float>({2, 3, 8});
  const auto weight = zeros<float>({5, 8});
  CHECK_THROWS_WITH_AS(linear(zeros<float>({2, 3, 7}), weight),
                       "linear: x [2,3,7] has 7 in dim 2; expected 8, the input width of weight [5,8]", ShapeError);
  CHECK_THROWS_WITH_AS(linear(x, weight, zeros<float>({8})),
                       "linear: bias [8] has 8 in dim 0; expected 5, the output width of weight [5,8]", ShapeError);
  CHECK_THROWS_WITH_AS(linear_backward(zeros<float>({2, 3, 8}), x, weight),
                       "linear_backward: dy [2,3,8] has 8 in dim 2; expected 5, the output width of weight [5,8]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(linear_backward(zeros<float>({2, 4, 5}), x, weight),
                       "linear_backward: dy [2,4,5] has 4 in dim 1; expected 3, as in x [2,3,8]", ShapeError);
}
