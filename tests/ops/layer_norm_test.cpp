// Mirrors include/attensor/ops/layer_norm.hpp.

#include "attensor/ops/layer_norm.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/complex_step.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

const auto gradients = [](const auto& dy, const auto& x, const auto& weight, const auto& bias) {
  LayerNormSaved<double> saved;
  (void)layer_norm(x, weight, bias, {}, &saved);
  auto grads = layer_norm_backward(dy, x, weight, saved);
  return std::tuple{std::move(grads.x), std::move(grads.weight), std::move(grads.bias)};
};

}  // namespace

TEST_CASE("layer_norm: a row has mean bias and spread weight") {
  const Tensor<double, 2> x = {{1, 2, 3, 4}};
  const double s = std::sqrt(1.25);  // biased standard deviation of 1, 2, 3, 4
  const auto y = layer_norm(x, ones<double>({4}), zeros<double>({4}), {.eps = 0});
  CHECK_NEAR(y, (Tensor<double, 2>{{-1.5 / s, -0.5 / s, 0.5 / s, 1.5 / s}}), 1e-14);
  const auto scaled = layer_norm(x, full<double>({4}, 3), full<double>({4}, 5), {.eps = 0});
  CHECK_NEAR(scaled, (Tensor<double, 2>{{5 - 4.5 / s, 5 - 1.5 / s, 5 + 1.5 / s, 5 + 4.5 / s}}), 1e-14);
}

TEST_CASE("layer_norm: eps is added to the variance, inside the root") {
  const Tensor<double, 2> x = {{-1, 1}};
  CHECK_NEAR(layer_norm(x, ones<double>({2}), zeros<double>({2}), {.eps = 3}), (Tensor<double, 2>{{-0.5, 0.5}}), 1e-15);
  const Tensor<double, 2> tiny = {{-1e-3, 1e-3}};  // variance 1e-6, against the default of 1e-5
  CHECK_NEAR(layer_norm(tiny, ones<double>({2}), zeros<double>({2}))(0, 1), 1e-3 / std::sqrt(1.1e-5), 1e-14);
}

TEST_CASE("layer_norm: a constant row gives bias and finite gradients") {
  for (const Index features : {1, 3, 17, 64}) {
    const auto x = full<float>({1, features}, 7.1f);
    Rng rng(1);
    const auto weight = normal<float>({features}, rng), bias = normal<float>({features}, rng);
    LayerNormSaved<float> saved;
    CHECK(bitwise_equal(layer_norm(x, weight, bias, {}, &saved)[0], bias));
    const auto grads = layer_norm_backward(ones<float>({1, features}), x, weight, saved);
    CHECK(all_finite(grads.x));
    CHECK(bitwise_equal(grads.weight, zeros<float>({features})));
  }
}

TEST_CASE("layer_norm: keeps its digits where the mean is large against the spread") {
  for_random_cases(20, [](Rng& rng, Index features) {
    const auto x = to<float>(normal<double>({5, features}, rng, {.mean = 1e4, .stddev = 1e-2}));
    const auto weight = normal<float>({features}, rng), bias = normal<float>({features}, rng);
    const auto dy = normal<float>({5, features}, rng);
    LayerNormSaved<float> saved;
    LayerNormSaved<double> wanted_saved;
    const auto want = layer_norm(to<double>(x), to<double>(weight), to<double>(bias), {}, &wanted_saved);
    CHECK_NEAR(layer_norm(x, weight, bias, {}, &saved), want, 1e-5);
    const auto grads = layer_norm_backward(dy, x, weight, saved);
    const auto wanted = layer_norm_backward(to<double>(dy), to<double>(x), to<double>(weight), wanted_saved);
    const double largest = 1 / std::sqrt(1e-5);  // rstd: what dx may be scaled by
    CHECK_NEAR(grads.x, wanted.x, 1e-5 * largest);
    CHECK_NEAR(grads.weight, wanted.weight, 1e-5);
  });
}

TEST_CASE("layer_norm: a row has the same bits wherever it lies, and whatever rows are beside it") {
  for_random_cases(20, [](Rng& rng, Index features) {
    const auto wide = normal<float>({7, features + 3}, rng), dy = normal<float>({7, features}, rng);
    const auto x = slice(wide, 1, 1, features + 1);
    const auto weight = normal<float>({features}, rng), bias = normal<float>({features}, rng);
    LayerNormSaved<float> saved, saved_row;
    const auto y = layer_norm(x, weight, bias, {}, &saved);
    const auto dx = layer_norm_backward(dy, x, weight, saved).x;
    for (Index row = 0; row < 7; ++row) {
      const auto alone = contiguous(slice(x, 0, row, row + 1));
      CHECK(bitwise_equal(layer_norm(alone, weight, bias, {}, &saved_row)[0], y[row]));
      CHECK(bitwise_equal(layer_norm_backward(contiguous(slice(dy, 0, row, row + 1)), alone, weight, saved_row).x[0],
                          dx[row]));
    }
  });
}

TEST_CASE("layer_norm: gradients match finite differences") {
  for_random_cases(30, [](Rng& rng, Index features) {
    const auto shape = random_shape<3>(rng, {.last = features, .largest = 4});
    check_gradients([](const auto& x, const auto& w, const auto& b) { return layer_norm(x, w, b); }, gradients,
                    normal<double>(shape, rng), normal<double>({features}, rng), normal<double>({features}, rng));
  });
}

TEST_CASE("layer_norm: gradients match complex steps") {
  for_random_cases(10, [](Rng& rng, Index features) {
    if (features == 1) features = 4;  // a constant row: the gradient is nothing but rounding over sqrt(eps)
    check_complex_step([](const auto& x, const auto& w, const auto& b) { return layer_norm(x, w, b); }, gradients, rng,
                       normal<double>({2, features}, rng), normal<double>({features}, rng),
                       normal<double>({features}, rng));
  });
}

TEST_CASE("layer_norm: nothing gives nothing, forward and backward") {
  for (const Shape<3> shape : {Shape<3>{0, 5, 8}, Shape<3>{2, 0, 8}, Shape<3>{2, 5, 0}}) {
    const auto x = zeros<float>(shape);
    const auto weight = ones<float>({shape[2]}), bias = zeros<float>({shape[2]});
    LayerNormSaved<float> saved;
    CHECK(layer_norm(x, weight, bias, {}, &saved).shape() == shape);
    const auto grads = layer_norm_backward(x, x, weight, saved);
    CHECK(grads.x.shape() == shape);
    CHECK(bitwise_equal(grads.weight, zeros_like(weight)));
  }
}

TEST_CASE("layer_norm: a wrong weight, bias, gradient or saved moment is named") {
  const auto x = zeros<float>({2, 8});
  const auto weight = ones<float>({8}), bias = zeros<float>({8});
  CHECK_THROWS_WITH_AS(layer_norm(x, ones<float>({4}), bias),
                       "layer_norm: weight [4] has 4 in dim 0; expected 8, the last dimension of x [2,8]", ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm(x, weight, zeros<float>({9})),
                       "layer_norm: bias [9] has 9 in dim 0; expected 8, the last dimension of x [2,8]", ShapeError);
  LayerNormSaved<float> saved;
  (void)layer_norm(zeros<float>({3, 8}), weight, bias, {}, &saved);
  CHECK_THROWS_WITH_AS(layer_norm_backward(zeros<float>({2, 7}), x, weight, saved),
                       "layer_norm_backward: dy [2,7] has 7 in dim 1; expected 8, the same as x [2,8]", ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm_backward(x, x, weight, saved),
                       "layer_norm_backward: saved.mean [3] has 3 in dim 0; expected 2, the number of rows of x [2,8]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm_backward(x, x, ones<float>({7}), saved),
                       "layer_norm_backward: weight [7] has 7 in dim 0; expected 8, the last dimension of x [2,8]",
                       ShapeError);
}
