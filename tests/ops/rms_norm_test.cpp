// Mirrors include/attensor/ops/rms_norm.hpp.

#include "attensor/ops/rms_norm.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("rms_norm: a row over its root mean square, times weight") {
  const Tensor<double, 2> x = {{1, -7, 5, 5}};  // mean square 25
  CHECK_NEAR(rms_norm(x, Tensor<double, 1>{1, 2, 3, -4}, {.eps = 0}), (Tensor<double, 2>{{0.2, -2.8, 3, -4}}), 1e-15);
}

TEST_CASE("rms_norm: eps is added to the mean square, inside the root") {
  const Tensor<double, 2> x = {{-1, 1}};
  CHECK_NEAR(rms_norm(x, ones<double>({2}), {.eps = 3}), (Tensor<double, 2>{{-0.5, 0.5}}), 1e-15);
  const Tensor<double, 2> tiny = {{-1e-3, 1e-3}};
  CHECK_NEAR(rms_norm(tiny, ones<double>({2}))(0, 1), 1e-3 / std::sqrt(1.1e-5), 1e-14);
}

TEST_CASE("rms_norm: a row of zeros gives zeros and finite gradients") {
  const auto x = zeros<float>({2, 5});
  const auto weight = ones<float>({5});
  RmsNormSaved<float> saved;
  CHECK(bitwise_equal(rms_norm(x, weight, {}, &saved), x));
  CHECK(all_finite(rms_norm_backward(ones<float>({2, 5}), x, weight, saved).x));
}

TEST_CASE("rms_norm: float is as near to double as float can be") {
  for_random_cases(20, [](Rng& rng, Index features) {
    const auto x = normal<float>({3, features}, rng), dy = normal<float>({3, features}, rng);
    const auto weight = normal<float>({features}, rng);
    RmsNormSaved<float> saved;
    RmsNormSaved<double> wanted_saved;
    const auto want = rms_norm(to<double>(x), to<double>(weight), {}, &wanted_saved);
    CHECK_NEAR(rms_norm(x, weight, {}, &saved), want, 2e-6);
    const auto wanted = rms_norm_backward(to<double>(dy), to<double>(x), to<double>(weight), wanted_saved);
    const auto grads = rms_norm_backward(dy, x, weight, saved);
    for (Index i = 0; i < 3; ++i) {
      CHECK_NEAR(grads.x[i], wanted.x[i], 1e-5 * std::max(1.0, wanted_saved.rstd(i)));  // dx is scaled by rstd
    }
    CHECK_NEAR(grads.weight, wanted.weight, 1e-5);
  });
}

TEST_CASE("rms_norm: a row has the same bits wherever it lies") {
  for_random_cases(20, [](Rng& rng, Index features) {
    const auto wide = normal<float>({7, features + 3}, rng);
    const auto weight = normal<float>({features}, rng);
    const auto x = slice(wide, 1, 1, features + 1);
    const auto y = rms_norm(x, weight);
    for (Index row = 0; row < 7; ++row) CHECK(bitwise_equal(rms_norm(contiguous(x[row]), weight), y[row]));
  });
}

TEST_CASE("rms_norm: gradients match finite differences") {
  for_random_cases(25, [](Rng& rng, Index features) {
    const auto shape = random_shape<3>(rng, {.last = features, .largest = 4});
    auto x = normal<double>(shape, rng);
    for (Index i = 0; i < x.size(); ++i) x.data()[i] += std::copysign(0.1, x.data()[i]);  // a lone 0 bends at sqrt(eps)
    check_gradients([](const auto& a, const auto& w) { return rms_norm(a, w); },
                    [](const auto& dy, const auto& a, const auto& w) {
                      RmsNormSaved<double> saved;
                      (void)rms_norm(a, w, {}, &saved);
                      auto grads = rms_norm_backward(dy, a, w, saved);
                      return std::tuple{std::move(grads.x), std::move(grads.weight)};
                    },
                    std::move(x), normal<double>({features}, rng));
  });
}

TEST_CASE("rms_norm: nothing gives nothing, and what does not fit is named") {
  for (const Shape<2> shape : {Shape<2>{0, 8}, Shape<2>{3, 0}}) {
    const auto x = zeros<float>(shape);
    const auto weight = ones<float>({shape[1]});
    RmsNormSaved<float> saved;
    CHECK(rms_norm(x, weight, {}, &saved).shape() == shape);
    CHECK(rms_norm_backward(x, x, weight, saved).weight.shape() == weight.shape());
  }
  const auto x = zeros<float>({2, 8});
  RmsNormSaved<float> saved;
  CHECK_THROWS_WITH_AS(rms_norm(x, ones<float>({4}), {}, &saved),
                       "rms_norm: weight [4] has 4 in dim 0; expected 8, the last dimension of x [2,8]", ShapeError);
  (void)rms_norm(x, ones<float>({8}), {}, &saved);
  CHECK_THROWS_WITH_AS(rms_norm_backward(zeros<float>({3, 8}), x, ones<float>({8}), saved),
                       "rms_norm_backward: dy [3,8] has 3 in dim 0; expected 2, the same as x [2,8]", ShapeError);
  CHECK_THROWS_WITH_AS(rms_norm_backward(zeros<float>({3, 8}), zeros<float>({3, 8}), ones<float>({8}), saved),
                       "rms_norm_backward: saved.rstd [2] has 2 in dim 0; expected 3, the number of rows of x [3,8]",
                       ShapeError);
}
