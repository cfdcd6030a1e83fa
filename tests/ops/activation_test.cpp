// Mirrors include/attensor/ops/activation.hpp.

#include "attensor/ops/activation.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

constexpr std::array all_kinds = {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu};

/// The formulas as they stand in the papers, by the standard library.
double wanted(Activation kind, double x) {
  switch (kind) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return not_a_number;
}

/// From -40 to 40, close together where the functions bend.
Tensor<double, 1> grid() {
  Tensor<double, 1> x(Shape{4001});
  for (Index i = 0; i < x.size(); ++i) {
    const double t = static_cast<double>(i - 2000) / 2000;
    x(i) = 40 * t * t * t;
  }
  return x;
}

template <class T>
Tensor<T, 1> extremes() {
  using limits = std::numeric_limits<T>;
  Tensor<T, 1> x = {limits::max(),
                    limits::lowest(),
                    T(1e30),
                    T(-1e30),
                    T(1e15),
                    T(-1e15),
                    T(200),
                    T(-200),
                    T(88.8),
                    T(-88.8),
                    T(104),
                    T(-104),
                    limits::min(),
                    -limits::min(),
                    T(0),
                    T(-0.0),
                    T(14),
                    T(-14),
                    T(39),
                    limits::denorm_min(),
                    -limits::denorm_min(),
                    T(-39)};
  return x;
}

}  // namespace

TEST_CASE("activation: every kind has the values of its formula") {
  const auto x = grid();
  for (const Activation kind : all_kinds) {
    INFO("kind ", static_cast<int>(kind));
    auto want = empty_like(x);
    for (Index i = 0; i < x.size(); ++i) want(i) = wanted(kind, x(i));
    CHECK_NEAR(activation(x, kind), want, 2e-15);
    CHECK_NEAR(activation(to<float>(x), kind), want, 4e-7);
  }
}

TEST_CASE("activation: the tail of gelu keeps its digits far out") {
  const Tensor<double, 1> x = {-1, -3, -6, -10, -20, -35};
  const auto y = gelu(x);
  const auto y_float = gelu(to<float>(x));
  for (Index i = 0; i < x.size(); ++i) {
    const double want = wanted(Activation::gelu, x(i));
    CHECK(std::abs(y(i) / want - 1) < 1e-12);
    if (x(i) > -12) CHECK(std::abs(static_cast<double>(y_float(i)) / want - 1) < 2e-5);
  }
}

TEST_CASE("activation: relu, gelu and silu are the kinds by name") {
  Rng rng(1);
  const auto x = normal<float>({3, 17}, rng), dy = normal<float>({3, 17}, rng);
  CHECK(bitwise_equal(relu(x), activation(x, Activation::relu)));
  CHECK(bitwise_equal(gelu(x), activation(x, Activation::gelu)));
  CHECK(bitwise_equal(gelu(x, {.form = GeluForm::tanh}), activation(x, Activation::gelu_tanh)));
  CHECK(bitwise_equal(silu(x), activation(x, Activation::silu)));
  CHECK(bitwise_equal(relu_backward(dy, x), activation_backward(dy, x, Activation::relu)));
  CHECK(bitwise_equal(gelu_backward(dy, x), activation_backward(dy, x, Activation::gelu)));
  CHECK(
      bitwise_equal(gelu_backward(dy, x, {.form = GeluForm::tanh}), activation_backward(dy, x, Activation::gelu_tanh)));
  CHECK(bitwise_equal(silu_backward(dy, x), activation_backward(dy, x, Activation::silu)));
}

TEST_CASE_TEMPLATE("activation: finite numbers have finite values and slopes, up to the largest", T, float, double) {
  const auto x = extremes<T>();
  for (const Activation kind : all_kinds) {
    INFO("kind ", static_cast<int>(kind));
    const auto y = activation(x, kind), slope = activation_backward(ones_like(x), x, kind);
    CHECK(all_finite(y));
    CHECK(all_finite(slope));
    for (Index i = 0; i < x.size(); ++i) {
      INFO("x = ", x(i));
      if (x(i) >= 50) {
        CHECK(y(i) == x(i));
        CHECK(slope(i) == T(1));
      } else if (x(i) <= -200) {
        CHECK(std::abs(y(i)) < T(1e-30));
        CHECK(std::abs(slope(i)) < T(1e-30));
      }
    }
  }
}

TEST_CASE_TEMPLATE("activation: a NaN stays one and stays alone", T, float, double) {
  for (const Activation kind : all_kinds) {
    INFO("kind ", static_cast<int>(kind));
    auto x = full<T>({21}, T(0.5));
    const auto clean = activation(x, kind);
    x(5) = static_cast<T>(not_a_number);
    const auto y = activation(x, kind);
    for (Index i = 0; i < 21; ++i) CHECK((i == 5 ? std::isnan(y(i)) : bitwise_equal(y(i), clean(i))));
  }
}

TEST_CASE("activation: the slope of relu at 0 is 0") {
  CHECK(relu_backward(ones<float>({2}), Tensor<float, 1>{0.0f, -0.0f})(0) == 0);
  CHECK(relu_backward(ones<float>({2}), Tensor<float, 1>{0.0f, -0.0f})(1) == 0);
}

TEST_CASE("activation: an element has the same bits in every lane and in every view") {
  for_random_cases(10, [](Rng& rng, Index size) {
    const auto x = normal<float>({5, size + 3}, rng);
    const auto part = slice(x, 1, 2, size + 2);  // rows at odd addresses
    for (const Activation kind : all_kinds) {
      const auto y = activation(x, kind);
      CHECK(bitwise_equal(activation(part, kind), slice(y, 1, 2, size + 2)));
      CHECK(bitwise_equal(activation_backward(part, part, kind),
                          activation_backward(contiguous(part), contiguous(part), kind)));
    }
  });
}

TEST_CASE("activation: gradients match finite differences") {
  for (const Activation kind : all_kinds) {
    for_random_cases(12, [&](Rng& rng, Index size) {
      INFO("kind ", static_cast<int>(kind));
      auto x = normal<double>(random_shape<2>(rng, {.last = size}), rng, {.stddev = 2});
      for (Index i = 0; i < x.size(); ++i) x.data()[i] += std::copysign(1e-3, x.data()[i]);  // away from relu's corner
      check_gradients([&](const auto& a) { return activation(a, kind); },
                      [&](const auto& dy, const auto& a) { return activation_backward(dy, a, kind); }, std::move(x));
    });
  }
}

TEST_CASE("activation: nothing gives nothing, and a gradient of another shape is named") {
  CHECK(gelu(zeros<float>({0, 4})).shape() == Shape{0, 4});
  CHECK(silu(zeros<double>({3, 0})).shape() == Shape{3, 0});
  CHECK_THROWS_WITH_AS(relu_backward(zeros<float>({2, 3}), zeros<float>({2, 4})),
                       "activation_backward: dy [2,3] has 3 in dim 1; expected 4, the same as x [2,4]", ShapeError);
}
