// Mirrors include/attensor/ops/cross_entropy.hpp.

#include "attensor/ops/cross_entropy.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

/// The definition, row by row.
double wanted(const Tensor<double, 2>& logits, const Tensor<std::int64_t, 1>& targets,
              const CrossEntropyOptions& options) {
  double total = 0, counted = 0;
  const Index classes = logits.extent(1);
  for (Index i = 0; i < logits.extent(0); ++i) {
    if (targets(i) == options.ignore_index) continue;
    ++counted;
    long double sum = 0;
    for (Index j = 0; j < classes; ++j) sum += std::exp(static_cast<long double>(logits(i, j)));
    for (Index j = 0; j < classes; ++j) {
      const double wanted_share =
          (1 - options.label_smoothing) * (j == targets(i)) + options.label_smoothing / static_cast<double>(classes);
      total -= wanted_share * static_cast<double>(static_cast<long double>(logits(i, j)) - std::log(sum));
    }
  }
  return counted == 0 ? 0 : total / counted;
}

Tensor<std::int64_t, 1> random_targets(Index rows, Index classes, std::int64_t ignore_index, Rng& rng) {
  Tensor<std::int64_t, 1> targets(Shape{rows});
  for (Index i = 0; i < rows; ++i) targets(i) = rng.below(4) == 0 ? ignore_index : rng.below(classes);
  return targets;
}

CrossEntropyOptions random_options(Rng& rng) {
  return {.ignore_index = rng.below(2) == 0 ? -100 : 0, .label_smoothing = rng.below(2) == 0 ? 0 : rng.uniform()};
}

}  // namespace

TEST_CASE("cross_entropy: the mean over targets that are not ignored, with and without smoothing") {
  for_random_cases(40, [](Rng& rng, Index classes) {
    const Index rows = random_between(rng, 1, 9);
    const auto options = random_options(rng);
    const auto logits = normal<double>({rows, classes}, rng, {.stddev = 3});
    const auto targets = random_targets(rows, classes, options.ignore_index, rng);
    CHECK_NEAR(cross_entropy(logits, targets, options), wanted(logits, targets, options), 1e-13);
    CHECK_NEAR(cross_entropy(to<float>(logits), targets, options), wanted(logits, targets, options), 3e-6);
  });
}

TEST_CASE_TEMPLATE("cross_entropy: logits of +-1e4 give no infinity", T, float, double) {
  const Tensor<T, 2> logits = {{T(1e4), T(-1e4), 0}, {T(-1e4), T(1e4), 0}};
  CHECK_NEAR(cross_entropy(logits, Tensor<std::int64_t, 1>{0, 0}), T(1e4), 1e-6);
  CHECK_NEAR(cross_entropy_backward(logits, Tensor<std::int64_t, 1>{0, 0}),
             (Tensor<T, 2>{{0, 0, 0}, {T(-0.5), T(0.5), 0}}), 1e-6);
}

TEST_CASE("cross_entropy: all targets ignored is 0 and a zero gradient, not NaN") {
  Rng rng(1);
  const auto logits = normal<float>({3, 4}, rng);
  const Tensor<std::int64_t, 1> targets = {-100, -100, -100};
  CHECK(cross_entropy(logits, targets) == 0);
  CHECK(bitwise_equal(cross_entropy_backward(logits, targets), zeros<float>({3, 4})));
  CHECK(cross_entropy(zeros<float>({0, 4}), Tensor<std::int64_t, 1>{}) == 0);
  CHECK(cross_entropy_backward(zeros<float>({0, 4}), Tensor<std::int64_t, 1>{}).shape() == Shape{0, 4});
}

TEST_CASE("cross_entropy: an ignored row is not read and gets exactly 0") {
  Rng rng(1);
  auto logits = normal<float>({3, 7}, rng);
  const Tensor<std::int64_t, 1> targets = {1, -100, 3};
  const float loss = cross_entropy(logits, targets);
  for (Index j = 0; j < 7; ++j) logits(1, j) = static_cast<float>(not_a_number);
  CHECK(bitwise_equal(cross_entropy(logits, targets), loss));
  const auto dx = cross_entropy_backward(logits, targets);
  CHECK(all_finite(dx));
  CHECK(bitwise_equal(dx[1], zeros<float>({7})));
}

TEST_CASE("cross_entropy: gradients match finite differences") {
  for_random_cases(30, [](Rng& rng, Index classes) {
    const Index rows = random_between(rng, 1, 5);
    const auto options = random_options(rng);
    const auto targets = random_targets(rows, classes, options.ignore_index, rng);
    check_gradients([&](const auto& logits) { return cross_entropy(logits, targets, options); },
                    [&](double dy, const auto& logits) {
                      auto dx = cross_entropy_backward(logits, targets, options);
                      for (Index i = 0; i < dx.size(); ++i) dx.data()[i] *= dy;
                      return dx;
                    },
                    normal<double>({rows, classes}, rng));
  });
}

TEST_CASE("cross_entropy: a target out of range is an error that names it and its position") {
  const auto logits = zeros<float>({3, 4});
  CHECK_THROWS_WITH_AS(cross_entropy(logits, Tensor<std::int64_t, 1>{1, -100, 4}),
                       "cross_entropy: targets [3] has 4 at [2]; expected a class id in [0, 4), the columns of logits, "
                       "or ignore_index -100",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      cross_entropy_backward(logits, Tensor<std::int64_t, 1>{-1, 0, 0}, {.ignore_index = -7}),
      "cross_entropy_backward: targets [3] has -1 at [0]; expected a class id in [0, 4), the columns of logits, or "
      "ignore_index -7",
      ValueError);
  CHECK_THROWS_AS(cross_entropy(logits, Tensor<std::int64_t, 1>{0, 0, (std::int64_t{1} << 32) + 1}), ValueError);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, Tensor<std::int64_t, 1>{0, 0}),
                       "cross_entropy: targets [2] has 2 in dim 0; expected 3, the rows of logits [3,4]", ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, Tensor<std::int64_t, 1>{0, 0, 0}, {.label_smoothing = 1.5}),
                       "cross_entropy: label_smoothing is 1.5; expected a weight in [0, 1]", ValueError);
  CHECK_THROWS_AS(cross_entropy(logits, Tensor<std::int64_t, 1>{0, 0, 0}, {.label_smoothing = not_a_number}),
                  ValueError);
}

TEST_CASE("cross_entropy: a strided view of logits has the bits of a copy") {
  Rng rng(1);
  const auto wide = normal<float>({5, 20}, rng);
  const auto logits = slice(wide, 1, 3, 16);
  const auto targets = random_targets(5, 13, -100, rng);
  CHECK(bitwise_equal(cross_entropy(logits, targets), cross_entropy(contiguous(logits), targets)));
  CHECK(bitwise_equal(cross_entropy_backward(logits, targets), cross_entropy_backward(contiguous(logits), targets)));
}
