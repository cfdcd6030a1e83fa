// Mirrors include/attensor/layers/norm.hpp.

#include "attensor/layers/norm.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("LayerNorm: starts with a gain of 1 and a bias of 0, and normalises as the op does") {
  Rng rng(1);
  const LayerNorm<float> layer(9, 1e-3);
  CHECK(bitwise_equal(layer.weight.value, ones<float>({9})));
  CHECK(bitwise_equal(layer.bias.value, zeros<float>({9})));
  const auto x = normal<float>({2, 3, 9}, rng);
  CHECK(bitwise_equal(layer.forward(x), layer_norm(x, layer.weight.value, layer.bias.value, {.eps = 1e-3})));
}

TEST_CASE("LayerNorm: gradients match finite differences") {
  for_random_cases(8, [](Rng& rng, Index dim) {
    LayerNorm<double> layer(dim);
    layer.weight.value = normal<double>({dim}, rng);
    layer.bias.value = normal<double>({dim}, rng);
    check_layer_gradients(
        layer, [](const auto& self, const auto& x) { return self.forward(x); },
        [](auto& self, const auto& dy, const auto& x) {
          LayerNorm<double>::Saved saved;
          (void)self.forward(x, &saved);
          return self.backward(dy, saved);
        },
        normal<double>(random_shape<3>(rng, {.last = dim, .largest = 4}), rng));
  });
}

TEST_CASE("LayerNorm: backward adds to the gradients") {
  Rng rng(1);
  LayerNorm<float> layer(5);
  const auto x = normal<float>({4, 5}, rng), dy = normal<float>({4, 5}, rng);
  LayerNorm<float>::Saved saved;
  (void)layer.forward(x, &saved);
  (void)layer.backward(dy, saved);
  const auto weight = layer.weight.grad, bias = layer.bias.grad;
  (void)layer.backward(dy, saved);
  for (Index i = 0; i < 5; ++i) {
    CHECK(layer.weight.grad(i) == 2 * weight(i));
    CHECK(layer.bias.grad(i) == 2 * bias(i));
  }
}

TEST_CASE("LayerNorm: what does not fit is named") {
  CHECK_THROWS_WITH_AS(LayerNorm<float>(0), "LayerNorm: dim is 0; expected 1 or more", ValueError);
  CHECK_THROWS_WITH_AS(LayerNorm<float>(4, -1), "LayerNorm: eps is -1; expected 0 or more", ValueError);
  LayerNorm<float> layer(4);
  CHECK_THROWS_WITH_AS(layer.forward(zeros<float>({2, 5})),
                       "layer_norm: weight [4] has 4 in dim 0; expected 5, the last dimension of x [2,5]", ShapeError);
  LayerNorm<float>::Saved saved;
  (void)layer.forward(zeros<float>({2, 4}), &saved);
  CHECK_THROWS_WITH_AS(layer.backward(zeros<float>({3, 4}), saved),
                       "layer_norm_backward: dy [3,4] has 3 in dim 0; expected 2, the same as x [2,4]", ShapeError);
}
