// Mirrors include/attensor/layers/linear.hpp.

#include "attensor/layers/linear.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

const auto forward = [](const auto& layer, const auto& x) { return layer.forward(x); };
const auto backward = [](auto& layer, const auto& dy, const auto& x) {
  Linear<double>::Saved saved;
  (void)layer.forward(x, &saved);
  return layer.backward(dy, saved);
};

}  // namespace

TEST_CASE("Linear: starts uniform in +-1 / sqrt(in), weight and bias, as nn.Linear") {
  Rng rng(1);
  const Linear<double> layer({.in_dim = 100, .out_dim = 300}, rng);
  REQUIRE(layer.weight.value.shape() == Shape{300, 100});
  REQUIRE(layer.bias.value.shape() == Shape{300});
  double largest = 0, squares = 0;
  for (Index i = 0; i < layer.weight.value.size(); ++i) {
    const double w = layer.weight.value.data()[i];
    largest = std::max(largest, std::abs(w));
    squares += w * w;
  }
  CHECK(largest <= 0.1);
  CHECK(largest > 0.0999);
  CHECK_NEAR(std::sqrt(squares / 30000), 0.1 / std::sqrt(3.0), 1e-3);
  double largest_bias = 0;
  for (Index i = 0; i < 300; ++i) largest_bias = std::max(largest_bias, std::abs(layer.bias.value(i)));
  CHECK(largest_bias <= 0.1);
  CHECK(largest_bias > 0.09);
}

TEST_CASE("Linear: forward is the op linear, with or without a bias") {
  Rng rng(1);
  const auto x = normal<float>({2, 3, 7}, rng);
  const Linear<float> with({.in_dim = 7, .out_dim = 5}, rng), without({.in_dim = 7, .out_dim = 5, .bias = false}, rng);
  CHECK(bitwise_equal(with.forward(x), linear(x, with.weight.value, with.bias.value)));
  CHECK(bitwise_equal(without.forward(x), linear(x, without.weight.value)));
  CHECK(without.bias.value.empty());
}

TEST_CASE("Linear: gradients match finite differences") {
  for_random_cases(10, [](Rng& rng, Index in) {
    const Linear<double> layer({.in_dim = in, .out_dim = random_between(rng, 1, 9), .bias = rng.below(2) == 0}, rng);
    check_layer_gradients(layer, forward, backward,
                          normal<double>(random_shape<3>(rng, {.last = in, .largest = 4}), rng));
  });
}

TEST_CASE("Linear: backward adds to the gradients, and takes rows at any step") {
  Rng rng(1);
  Linear<float> layer({.in_dim = 4, .out_dim = 3}, rng);
  const auto x = normal<float>({6, 4}, rng), wide = normal<float>({6, 5}, rng);
  const auto dy = slice(wide, 1, 1, 4);
  Linear<float>::Saved saved;
  (void)layer.forward(x, &saved);
  const auto dx = layer.backward(dy, saved);
  const auto once = layer.weight.grad;
  CHECK(bitwise_equal(layer.backward(contiguous(dy), saved), dx));
  for (Index i = 0; i < once.size(); ++i)
    CHECK(is_near(static_cast<double>(layer.weight.grad.data()[i]), 2 * static_cast<double>(once.data()[i]), 1e-6));
}

TEST_CASE_TEMPLATE("Linear: packed for inference it has the same bits, and unpacked the same weight", T, float,
                   double) {
  for_random_cases(20, [](Rng& rng, Index in) {
    Linear<T> layer(
        {.in_dim = in + (rng.below(4) == 0 ? 320 : 0), .out_dim = awkward_size(rng), .bias = rng.below(2) == 0}, rng);
    const auto weight = layer.weight.value;
    const auto x = normal<T>({random_between(rng, 1, 40), layer.in_dim()}, rng);
    const auto y = layer.forward(x);
    layer.pack();
    layer.pack();  // again changes nothing
    CHECK(layer.is_packed());
    CHECK(layer.out_dim() == weight.extent(0));
    CHECK(bitwise_equal(layer.forward(x), y));
    const auto copy = layer;
    CHECK(bitwise_equal(copy.forward(x), y));
    layer.unpack();
    CHECK(bitwise_equal(layer.weight.value, weight));
    CHECK(bitwise_equal(layer.forward(x), y));
  });
}

TEST_CASE("Linear: a packed layer has no weights to train, load or save, and says so") {
  Rng rng(1);
  Linear<float> layer({.in_dim = 4, .out_dim = 3}, rng);
  layer.pack();
  CHECK_THROWS_WITH_AS(count_parameters(layer),
                       "visit_parameters: the layer is packed for inference and has no weights to change, load or "
                       "save; expected one that "
                       "is not (call unpack() first)",
                       ValueError);
  CHECK_THROWS_AS(layer.backward(zeros<float>({2, 3}), {}), ValueError);
  CHECK_THROWS_WITH_AS(layer.forward(zeros<float>({2, 5})),
                       "linear: x [2,5] has 5 in dim 1; expected 4, the input width of the packed weight", ShapeError);
}

TEST_CASE("Linear: what does not fit is named") {
  Rng rng(1);
  Linear<float> layer({.in_dim = 4, .out_dim = 3}, rng);
  CHECK_THROWS_WITH_AS(Linear<float>({.in_dim = 0, .out_dim = 3}, rng), "Linear: in_dim is 0; expected 1 or more",
                       ValueError);
  CHECK_THROWS_WITH_AS(Linear<float>({.in_dim = 3, .out_dim = -1}, rng), "Linear: out_dim is -1; expected 1 or more",
                       ValueError);
  CHECK_THROWS_WITH_AS(layer.forward(zeros<float>({2, 5})),
                       "linear: x [2,5] has 5 in dim 1; expected 4, the input width of weight [3,4]", ShapeError);
  Linear<float>::Saved saved;
  (void)layer.forward(zeros<float>({2, 4}), &saved);
  CHECK_THROWS_WITH_AS(layer.backward(zeros<float>({2, 4}), saved),
                       "Linear::backward: dy [2,4] has 4 in dim 1; expected 3, the output width of weight [3,4]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(layer.backward(zeros<float>({5, 3}), saved),
                       "Linear::backward: saved.x [2,4] has 2 in dim 0; expected 5, the number of rows of dy [5,3]",
                       ShapeError);
}
