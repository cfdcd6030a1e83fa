// Mirrors include/attensor/ops/softmax.hpp.

#include "attensor/ops/softmax.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/complex_step.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

const auto softmax_of = [](const auto& x) { return softmax(x); };
const auto log_softmax_of = [](const auto& x) { return log_softmax(x); };
const auto softmax_gradient = [](const auto& dy, const auto& x) { return softmax_backward(dy, softmax(x)); };
const auto log_softmax_gradient = [](const auto& dy, const auto& x) {
  return log_softmax_backward(dy, log_softmax(x));
};

}  // namespace

TEST_CASE("softmax: the exponentials of a row over their sum") {
  for_random_cases(20, [](Rng& rng, Index size) {
    const auto x = normal<double>({4, size}, rng, {.stddev = 3});
    auto want = empty_like(x), want_log = empty_like(x);
    for (Index i = 0; i < 4; ++i) {
      long double total = 0;
      for (Index j = 0; j < size; ++j) total += std::exp(static_cast<long double>(x(i, j)));
      for (Index j = 0; j < size; ++j) {
        want(i, j) = static_cast<double>(std::exp(static_cast<long double>(x(i, j))) / total);
        want_log(i, j) = static_cast<double>(static_cast<long double>(x(i, j)) - std::log(total));
      }
    }
    CHECK_NEAR(softmax(x), want, 1e-14);
    CHECK_NEAR(log_softmax(x), want_log, 1e-14);
    CHECK_NEAR(softmax(to<float>(x)), want, 3e-6);
    CHECK_NEAR(log_softmax(to<float>(x)), want_log, 3e-6);
  });
}

TEST_CASE_TEMPLATE("softmax: scores of +-1e4 neither overflow nor vanish together", T, float, double) {
  const Tensor<T, 2> x = {{T(1e4), T(1e4), T(-1e4)}, {T(-1e4), T(-1e4), T(-1e4)}};
  CHECK_NEAR(softmax(x), (Tensor<T, 2>{{T(0.5), T(0.5), 0}, {T(1) / 3, T(1) / 3, T(1) / 3}}), 1e-6);
  const T log2 = std::log(T(2)), log3 = std::log(T(3));
  CHECK_NEAR(log_softmax(x), (Tensor<T, 2>{{-log2, -log2, T(-2e4) - log2}, {-log3, -log3, -log3}}), 1e-6);
}

TEST_CASE_TEMPLATE("softmax: a row of -infinity only is zeros, its log-softmax -infinity, and no gradient is NaN", T,
                   float, double) {
  const auto x = full<T>({2, 9}, T(-infinity));
  const auto y = softmax(x), log_y = log_softmax(x);
  CHECK(bitwise_equal(y, zeros<T>({2, 9})));
  CHECK(bitwise_equal(log_y, x));
  CHECK(bitwise_equal(softmax_backward(ones_like(x), y), zeros<T>({2, 9})));
  CHECK(all_finite(log_softmax_backward(ones_like(x), log_y)));
}

TEST_CASE("softmax: -infinity at some places is 0 there, and changes no bit elsewhere when it stands at the end") {
  for_random_cases(20, [](Rng& rng, Index size) {
    const auto x = normal<float>({1, size}, rng);
    const Index longer = size + random_between(rng, 1, 70);
    auto padded = full<float>({1, longer}, static_cast<float>(-infinity));
    std::copy_n(x.data(), size, padded.data());
    const auto y = softmax(padded);
    CHECK(bitwise_equal(slice(y, 1, 0, size), softmax(x)));
    CHECK(bitwise_equal(slice(y, 1, size, longer), zeros<float>({1, longer - size})));
    const auto log_y = log_softmax(padded);
    CHECK(bitwise_equal(slice(log_y, 1, 0, size), log_softmax(x)));
  });
}

TEST_CASE("softmax: a NaN stays in its row") {
  Rng rng(1);
  auto x = normal<float>({3, 33}, rng);
  const auto clean = softmax(x), clean_log = log_softmax(x);
  x(1, 20) = static_cast<float>(not_a_number);
  const auto y = softmax(x), log_y = log_softmax(x);
  for (Index i : {0, 2}) {
    CHECK(bitwise_equal(y[i], clean[i]));
    CHECK(bitwise_equal(log_y[i], clean_log[i]));
  }
  CHECK(std::isnan(y(1, 20)));
  CHECK(std::isnan(log_y(1, 20)));
}

TEST_CASE("softmax: log_softmax keeps the digits that log(softmax) loses") {
  const Tensor<float, 2> x = {{0, -200, -1e-3f}};
  const auto y = log_softmax(x);
  CHECK_NEAR(y(0, 1), -200.0f - std::log(1 + std::exp(-1e-3f)), 1e-6);
  CHECK(softmax(x)(0, 1) == 0);
}

TEST_CASE("softmax: a row has the same bits wherever it lies") {
  for_random_cases(20, [](Rng& rng, Index size) {
    const auto x = normal<float>({7, size + 5}, rng);
    const auto part = slice(x, 1, 3, size + 3);
    const auto y = softmax(part), log_y = log_softmax(part);
    for (Index i = 0; i < 7; ++i) {
      CHECK(bitwise_equal(softmax(contiguous(part[i])), y[i]));
      CHECK(bitwise_equal(log_softmax(contiguous(part[i])), log_y[i]));
    }
  });
}

TEST_CASE("softmax: gradients match finite differences") {
  for_random_cases(20, [](Rng& rng, Index size) {
    const auto x = normal<double>(random_shape<3>(rng, {.last = size, .largest = 3}), rng);
    check_gradients(softmax_of, softmax_gradient, x);
    check_gradients(log_softmax_of, log_softmax_gradient, x);
  });
}

TEST_CASE("softmax: gradients match complex steps") {
  for_random_cases(10, [](Rng& rng, Index size) {
    const auto x = normal<double>({2, size}, rng);
    check_complex_step(softmax_of, softmax_gradient, rng, x);
    check_complex_step(log_softmax_of, log_softmax_gradient, rng, x);
  });
}

TEST_CASE("softmax: nothing gives nothing, and a gradient of another shape is named") {
  CHECK(softmax(zeros<float>({0, 5})).shape() == Shape{0, 5});
  CHECK(softmax(zeros<float>({5, 0})).shape() == Shape{5, 0});
  CHECK(log_softmax(zeros<double>({2, 0, 3})).shape() == Shape{2, 0, 3});
  CHECK_THROWS_WITH_AS(softmax_backward(zeros<float>({2, 3}), zeros<float>({4, 3})),
                       "softmax_backward: dy [2,3] has 2 in dim 0; expected 4, the same as y [4,3]", ShapeError);
  CHECK_THROWS_WITH_AS(log_softmax_backward(zeros<float>({2, 3}), zeros<float>({2, 5})),
                       "log_softmax_backward: dy [2,3] has 3 in dim 1; expected 5, the same as y [2,5]", ShapeError);
}
