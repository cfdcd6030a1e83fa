// Mirrors include/attensor/layers/self_attention.hpp.

#include "attensor/layers/self_attention.hpp"

#include <doctest/doctest.h>

#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

SelfAttentionOptions random_options(Rng& rng) {
  return {.embed_dim = random_between(rng, 1, 9),
          .key_dim = random_between(rng, 0, 7),
          .value_dim = random_between(rng, 0, 7),
          .output_projection = rng.below(2) == 0,
          .bias = rng.below(2) == 0};
}

/// Gradients of a layer whose forward pass takes x and `what`: options, or a mask of either rank.
template <class What>
void check_gradients_with(const SelfAttention<double>& layer, const Tensor<double, 3>& x, const What& what) {
  check_layer_gradients(
      layer, [&](const auto& self, const auto& input) { return self.forward(input, what); },
      [&](auto& self, const auto& dy, const auto& input) {
        SelfAttention<double>::Saved saved;
        (void)self.forward(input, what, &saved);
        return self.backward(dy, saved);
      },
      x);
}

}  // namespace

TEST_CASE("SelfAttention: softmax(q k^T / sqrt(d_k)) v, with free widths") {
  for_random_cases(20, [](Rng& rng) {
    const auto options = random_options(rng);
    const SelfAttention<double> layer(options, rng);
    const Index key_dim = options.key_dim == 0 ? options.embed_dim : options.key_dim;
    const Index value_dim = options.value_dim == 0 ? options.embed_dim : options.value_dim;
    const auto x = normal<double>({2, 4, options.embed_dim}, rng);
    const auto q = layer.W_Q.forward(x), k = layer.W_K.forward(x), v = layer.W_V.forward(x);
    REQUIRE(q.extent(2) == key_dim);
    REQUIRE(v.extent(2) == value_dim);
    auto heads = zeros<double>({2, 4, value_dim});
    auto weights = zeros<double>({2, 4, 4});
    for (Index b = 0; b < 2; ++b) {
      for (Index i = 0; i < 4; ++i) {
        for (Index j = 0; j < 4; ++j) {
          for (Index d = 0; d < key_dim; ++d)
            weights(b, i, j) += q(b, i, d) * k(b, j, d) / std::sqrt(static_cast<double>(key_dim));
        }
      }
    }
    weights = softmax(weights);
    for (Index b = 0; b < 2; ++b) {
      for (Index i = 0; i < 4; ++i) {
        for (Index j = 0; j < 4; ++j) {
          for (Index d = 0; d < value_dim; ++d) heads(b, i, d) += weights(b, i, j) * v(b, j, d);
        }
      }
    }
    CHECK_NEAR(layer.forward(x), options.output_projection ? layer.W_O.forward(heads) : heads, 1e-13);
    CHECK_NEAR(layer.weights(x), weights, 1e-13);
  });
}

TEST_CASE("SelfAttention: a mask of keys [B, S] and one of pairs [B, S, S] are masks of rank 4") {
  for_random_cases(20, [](Rng& rng) {
    const SelfAttention<double> layer(random_options(rng), rng);
    const auto x = normal<double>({2, 5, layer.W_Q.in_dim()}, rng);
    const auto keys = random_mask(Shape{2, 5}, rng);
    const auto pairs = random_mask(Shape{2, 5, 5}, rng);
    Tensor<bool, 4> keys4(Shape{2, 1, 1, 5}), pairs4(Shape{2, 1, 5, 5});
    std::copy_n(keys.data(), keys.size(), keys4.data());
    std::copy_n(pairs.data(), pairs.size(), pairs4.data());
    CHECK(bitwise_equal(layer.forward(x, keys), layer.forward(x, {.mask = keys4})));
    CHECK(bitwise_equal(layer.forward(x, pairs), layer.forward(x, {.mask = pairs4})));
    CHECK(bitwise_equal(layer.weights(x, keys), layer.weights(x, {.mask = keys4})));
    CHECK(bitwise_equal(layer.weights(x, pairs), layer.weights(x, {.mask = pairs4})));
  });
}

TEST_CASE("SelfAttention: gradients match finite differences, without a mask and with one of either rank") {
  for_random_cases(8, [](Rng& rng) {
    const SelfAttention<double> layer(random_options(rng), rng);
    const auto x = normal<double>({2, random_between(rng, 1, 6), layer.W_Q.in_dim()}, rng);
    const Index length = x.extent(1);
    check_gradients_with(layer, x,
                         AttentionOptions<double>{.causal = rng.below(2) == 0 ? Causal::none : Causal::top_left});
    check_gradients_with(layer, x, random_mask(Shape{2, length}, rng));
    check_gradients_with(layer, x, random_mask(Shape{2, length, length}, rng));
  });
}

TEST_CASE("SelfAttention: dropout is active where the options carry a generator, and its gradients match") {
  Rng rng(1);
  auto options = random_options(rng);
  options.dropout = 0.4;
  const SelfAttention<double> layer(options, rng);
  const auto x = normal<double>({2, 6, options.embed_dim}, rng);
  const auto run = [&](const auto& self, const auto& input, SelfAttention<double>::Saved* saved) {
    Rng mask_rng(5);
    return self.forward(input, {.rng = &mask_rng}, saved);
  };
  CHECK(!bitwise_equal(run(layer, x, nullptr), layer.forward(x)));
  check_layer_gradients(
      layer, [&](const auto& self, const auto& input) { return run(self, input, nullptr); },
      [&](auto& self, const auto& dy, const auto& input) {
        SelfAttention<double>::Saved saved;
        (void)run(self, input, &saved);
        return self.backward(dy, saved);
      },
      x);
}

TEST_CASE("SelfAttention: packed for inference it has the same bits") {
  for_random_cases(10, [](Rng& rng) {
    SelfAttention<float> layer(random_options(rng), rng);
    const auto x = normal<float>({2, 5, layer.W_Q.in_dim()}, rng);
    const auto y = layer.forward(x);
    layer.pack();
    CHECK(bitwise_equal(layer.forward(x), y));
    layer.unpack();
    CHECK(bitwise_equal(layer.forward(x), y));
  });
}

TEST_CASE("SelfAttention: widths that do not fit are named, d_k against d_model too") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(SelfAttention<float>({.embed_dim = 0}, rng), "SelfAttention: embed_dim is 0; expected 1 or more",
                       ValueError);
  CHECK_THROWS_WITH_AS(SelfAttention<float>({.embed_dim = 4, .key_dim = -2}, rng),
                       "SelfAttention: key_dim is -2; expected a width, or 0 for embed_dim", ValueError);
  CHECK_THROWS_WITH_AS(SelfAttention<float>({.embed_dim = 4, .value_dim = -2}, rng),
                       "SelfAttention: value_dim is -2; expected a width, or 0 for embed_dim", ValueError);
  CHECK_THROWS_WITH_AS(SelfAttention<float>({.embed_dim = 4, .dropout = 2}, rng),
                       "SelfAttention: dropout is 2; expected a probability in [0, 1]", ValueError);
  SelfAttention<float> layer({.embed_dim = 8, .key_dim = 4, .value_dim = 5}, rng);
  CHECK_THROWS_WITH_AS(layer.forward(zeros<float>({2, 3, 4})),
                       "SelfAttention: x [2,3,4] has 4 in dim 2; expected 8, embed_dim", ShapeError);
  const auto x = zeros<float>({2, 3, 8});
  CHECK_THROWS_WITH_AS(layer.forward(x, full<bool>({2, 4}, true)),
                       "SelfAttention: mask [2,4] has 4 in dim 1; expected 3, as in x [2,3,8]", ShapeError);
  CHECK_THROWS_WITH_AS(layer.forward(x, full<bool>({1, 3, 3}, true)),
                       "SelfAttention: mask [1,3,3] has 1 in dim 0; expected 2, as in x [2,3,8]", ShapeError);
  SelfAttention<float>::Saved saved;
  (void)layer.forward(x, {}, &saved);
  CHECK_THROWS_WITH_AS(
      layer.backward(zeros<float>({2, 3, 8}), saved),
      "SelfAttention::backward: dy [2,3,8] has 8 in dim 2; expected 5, the same as the output that was saved, [2,3,5]",
      ShapeError);
}
