// Mirrors include/attensor/layers/multi_head_attention.hpp.

#include "attensor/layers/multi_head_attention.hpp"

#include <doctest/doctest.h>

#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

using Layer = MultiHeadAttention<double>;

/// Heads of 1 to 5 features, groups of heads, with and without bias and dropout.
MultiHeadAttentionOptions random_options(Rng& rng) {
  const Index key_heads = random_between(rng, 1, 2), heads = key_heads * random_between(rng, 1, 3);
  return {.embed_dim = heads * random_between(rng, 1, 5),
          .num_heads = heads,
          .num_kv_heads = key_heads,
          .bias = rng.below(3) > 0,
          .dropout = rng.below(3) == 0 ? 0.3 : 0.0};
}

/// Biases start at 0: with others their gradients are tested where it counts.
void scatter_bias(Layer& layer, Rng& rng) {
  if (layer.in_proj_bias.value.empty()) return;
  layer.in_proj_bias.value = normal<double>(layer.in_proj_bias.value.shape(), rng);
  layer.out_proj.bias.value = normal<double>(layer.out_proj.bias.value.shape(), rng);
}

AttentionOptions<double> random_attention_options(Rng& rng, Index batch, Index queries, Index keys) {
  AttentionOptions<double> options;
  options.causal =
      std::array{Causal::none, Causal::top_left, Causal::bottom_right}[static_cast<std::size_t>(rng.below(3))];
  if (rng.below(2) == 0)
    options.mask = random_mask(Shape<4>{batch, 1, rng.below(2) == 0 ? 1 : queries, keys}, rng, 0.7);
  if (rng.below(4) == 0) options.window_left = 2;
  if (rng.below(4) == 0) options.softcap = 1.5;
  return options;
}

}  // namespace

TEST_CASE("MultiHeadAttention: heads of the projections, attended to, side by side, projected") {
  for_random_cases(20, [](Rng& rng) {
    auto wanted = random_options(rng);
    wanted.dropout = 0;
    wanted.bias = true;
    Layer layer(wanted, rng);
    scatter_bias(layer, rng);
    const Index embed = wanted.embed_dim, width = layer.key_width(), length = random_between(rng, 1, 9);
    const auto x = normal<double>({2, length, embed}, rng);
    const auto options = random_attention_options(rng, 2, length, length);
    const auto project = [&](Index begin, Index end) {
      return linear(x, slice(layer.in_proj_weight.value, 0, begin, end),
                    slice(layer.in_proj_bias.value, 0, begin, end));
    };
    const auto q = project(0, embed), k = project(embed, embed + width), v = project(embed + width, embed + 2 * width);
    const auto result =
        scaled_dot_product_attention(split_heads(q, wanted.num_heads), split_heads(k, wanted.num_kv_heads),
                                     split_heads(v, wanted.num_kv_heads), options);
    const auto y = layer.forward(x, options);
    CHECK_NEAR(y, layer.out_proj.forward(merge_heads(result.output)), 1e-13);
    CHECK_NEAR(layer.forward(x, x, x, options), y, 1e-13);
    CHECK_NEAR(layer.weights(x, options),
               attention_weights(split_heads(q, wanted.num_heads), split_heads(k, wanted.num_kv_heads), options),
               1e-13);
    CHECK_NEAR(layer.weights(x, x, options), layer.weights(x, options), 1e-13);
  });
}

TEST_CASE("MultiHeadAttention: gradients of self-attention match finite differences") {
  for_random_cases(25, [](Rng& rng) {
    Layer layer(random_options(rng), rng);
    scatter_bias(layer, rng);
    const Index length = random_between(rng, 1, 6);
    const auto options = random_attention_options(rng, 2, length, length);
    const auto seed = rng.next64();
    const auto run = [&](const Layer& self, const auto& x, Layer::Saved* saved) {
      Rng mask_rng(seed);
      auto own = options;
      own.rng = &mask_rng;
      return self.forward(x, own, saved);
    };
    check_layer_gradients(
        layer, [&](const auto& self, const auto& x) { return run(self, x, nullptr); },
        [&](auto& self, const auto& dy, const auto& x) {
          Layer::Saved saved;
          (void)run(self, x, &saved);
          return self.backward(dy, saved);
        },
        normal<double>({2, length, layer.embed_dim()}, rng));
  });
}

TEST_CASE(
    "MultiHeadAttention: gradients of cross-attention match finite differences, with widths of key and value of their "
    "own") {
  for_random_cases(25, [](Rng& rng) {
    auto wanted = random_options(rng);
    if (rng.below(2) == 0) wanted.key_dim = random_between(rng, 1, 9);
    if (rng.below(2) == 0) wanted.value_dim = random_between(rng, 1, 9);
    Layer layer(wanted, rng);
    scatter_bias(layer, rng);
    const Index queries = random_between(rng, 1, 6), keys = random_between(rng, 0, 6);
    const auto options = random_attention_options(rng, 2, queries, keys);
    const auto seed = rng.next64();
    const auto run = [&](const Layer& self, const auto& query, const auto& key, const auto& value,
                         Layer::Saved* saved) {
      Rng mask_rng(seed);
      auto own = options;
      own.rng = &mask_rng;
      return self.forward(query, key, value, own, saved);
    };
    check_layer_gradients(
        layer, [&](const auto& self, const auto&... x) { return run(self, x..., nullptr); },
        [&](auto& self, const auto& dy, const auto&... x) {
          Layer::Saved saved;
          (void)run(self, x..., &saved);
          auto grads = self.backward_cross(dy, saved);
          return std::tuple{std::move(grads.query), std::move(grads.key), std::move(grads.value)};
        },
        normal<double>({2, queries, wanted.embed_dim}, rng),
        normal<double>({2, keys, wanted.key_dim == 0 ? wanted.embed_dim : wanted.key_dim}, rng),
        normal<double>({2, keys, wanted.value_dim == 0 ? wanted.embed_dim : wanted.value_dim}, rng));
  });
}

TEST_CASE("MultiHeadAttention: the gradients of a learned bias, slopes and sinks are handed out") {
  for_random_cases(8, [](Rng& rng) {
    const Layer layer({.embed_dim = 6, .num_heads = 3}, rng);
    const auto options_with = [](const auto& bias, const auto& slopes, const auto& sinks) {
      return AttentionOptions<double>{.bias = bias, .alibi_slopes = slopes, .sinks = sinks};
    };
    check_layer_gradients(
        layer,
        [&](const auto& self, const auto& x, const auto&... learned) {
          return self.forward(x, options_with(learned...));
        },
        [&](auto& self, const auto& dy, const auto& x, const auto&... learned) {
          Layer::Saved saved;
          (void)self.forward(x, options_with(learned...), &saved);
          AttentionGrads<double> of_options;
          auto dx = self.backward(dy, saved, &of_options);
          return std::tuple{std::move(dx), std::move(of_options.bias), std::move(of_options.alibi_slopes),
                            std::move(of_options.sinks)};
        },
        normal<double>({2, 4, 6}, rng), normal<double>({1, 3, 4, 4}, rng), uniform<double>({3}, rng),
        normal<double>({3}, rng));
  });
}

TEST_CASE("MultiHeadAttention: what was saved outlives the options, and serves self- and cross-attention in turn") {
  Rng rng(1);
  Layer layer({.embed_dim = 4, .num_heads = 2}, rng);
  const auto x = normal<double>({1, 3, 4}, rng), dy = normal<double>({1, 3, 4}, rng);
  const auto mask = Tensor<bool, 4>{{{{true, false, true}}}};
  Layer::Saved saved;
  (void)layer.forward(x, {.mask = mask}, &saved);
  const auto want = layer.backward(dy, saved);
  (void)layer.forward(x, x, x, {}, &saved);
  CHECK_THROWS_WITH_AS(layer.backward(dy, saved),
                       "MultiHeadAttention::backward: saved is from cross-attention; expected what self-attention "
                       "saved (backward_cross takes "
                       "the other)",
                       ValueError);
  (void)layer.backward_cross(dy, saved);
  (void)layer.forward(x, {}, &saved);
  CHECK_THROWS_WITH_AS(layer.backward_cross(dy, saved),
                       "MultiHeadAttention::backward_cross: saved is from self-attention; expected what "
                       "cross-attention saved (backward takes the other)",
                       ValueError);
  {
    Rng dropped(2);
    const AttentionOptions<double> options{.mask = Tensor<bool, 4>(mask), .rng = &dropped};
    (void)layer.forward(x, options, &saved);
  }
  for (int i = 0; i < 20; ++i) (void)full<bool>({1, 1, 1, 3}, true);
  CHECK(bitwise_equal(layer.backward(dy, saved), want));
}

TEST_CASE("MultiHeadAttention: starts as nn.MultiheadAttention does") {
  Rng rng(1);
  const MultiHeadAttention<double> layer({.embed_dim = 64, .num_heads = 4}, rng);
  REQUIRE(layer.in_proj_weight.value.shape() == Shape{192, 64});
  const auto largest = [](const auto& x) {
    double most = 0;
    for (Index i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x.data()[i]));
    return most;
  };
  const double xavier = std::sqrt(6.0 / (192 + 64)), bound = 1 / std::sqrt(64.0);
  CHECK(largest(layer.in_proj_weight.value) <= xavier);
  CHECK(largest(layer.in_proj_weight.value) > 0.99 * xavier);
  CHECK(largest(layer.out_proj.weight.value) <= bound);
  CHECK(largest(layer.out_proj.weight.value) > 0.99 * bound);
  CHECK(bitwise_equal(layer.in_proj_bias.value, zeros<double>({192})));
  CHECK(bitwise_equal(layer.out_proj.bias.value, zeros<double>({64})));

  const MultiHeadAttention<double> cross({.embed_dim = 64, .num_heads = 4, .key_dim = 10, .value_dim = 300}, rng);
  CHECK(largest(cross.k_proj_weight.value) <= std::sqrt(6.0 / 74));
  CHECK(largest(cross.v_proj_weight.value) <= std::sqrt(6.0 / 364));
  CHECK(cross.in_proj_weight.value.empty());
}

TEST_CASE("average_weights: the mean over heads") {
  const Tensor<double, 4> weights = {{{{1, 0}, {0.5, 0.5}}, {{0, 1}, {0, 1}}}};
  CHECK_NEAR(average_weights(weights), (Tensor<double, 3>{{{0.5, 0.5}, {0.25, 0.75}}}), 1e-15);
}

TEST_CASE_TEMPLATE(
    "MultiHeadAttention: packed for inference it has the same bits, self and cross, and unpacked the same weights", T,
    float, double) {
  for_random_cases(15, [](Rng& rng) {
    auto wanted = random_options(rng);
    const bool merged = rng.below(2) == 0;
    if (!merged) wanted.key_dim = random_between(rng, 1, 9), wanted.value_dim = random_between(rng, 1, 9);
    MultiHeadAttention<T> layer(wanted, rng);
    const auto x = normal<T>({2, 5, wanted.embed_dim}, rng);
    const auto key = merged ? x : normal<T>({2, 3, wanted.key_dim}, rng),
               value = merged ? x : normal<T>({2, 3, wanted.value_dim}, rng);
    const auto cross = layer.forward(x, key, value);
    const auto self = merged ? layer.forward(x) : cross;
    const auto before = layer;
    layer.pack();
    CHECK(layer.is_packed());
    CHECK(bitwise_equal(layer.forward(x, key, value), cross));
    if (merged) CHECK(bitwise_equal(layer.forward(x), self));
    CHECK_THROWS_AS(count_parameters(layer), ValueError);
    typename MultiHeadAttention<T>::Saved saved;
    (void)layer.forward(x, key, value, {}, &saved);
    CHECK_THROWS_AS(layer.backward_cross(cross, saved), ValueError);
    layer.unpack();
    CHECK(bitwise_equal(layer.in_proj_weight.value, before.in_proj_weight.value));
    CHECK(bitwise_equal(layer.k_proj_weight.value, before.k_proj_weight.value));
    CHECK(bitwise_equal(layer.v_proj_weight.value, before.v_proj_weight.value));
    CHECK(bitwise_equal(layer.forward(x, key, value), cross));
  });
}

TEST_CASE("MultiHeadAttention: heads that do not divide the width are named") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(Layer({.embed_dim = 4, .num_heads = 3}, rng),
                       "MultiHeadAttention: num_heads is 3; expected a divisor of embed_dim 4", ValueError);
  CHECK_THROWS_WITH_AS(Layer({.embed_dim = 4, .num_heads = 0}, rng),
                       "MultiHeadAttention: num_heads is 0; expected a divisor of embed_dim 4", ValueError);
  CHECK_THROWS_WITH_AS(Layer({.embed_dim = 12, .num_heads = 4, .num_kv_heads = 3}, rng),
                       "MultiHeadAttention: num_kv_heads is 3; expected a divisor of num_heads 4", ValueError);
  CHECK_THROWS_WITH_AS(Layer({.embed_dim = 0}, rng), "MultiHeadAttention: embed_dim is 0; expected 1 or more",
                       ValueError);
  CHECK_THROWS_WITH_AS(Layer({.embed_dim = 4, .key_dim = -1}, rng),
                       "MultiHeadAttention: key_dim is -1; expected a width, or 0 for embed_dim", ValueError);
  CHECK_THROWS_WITH_AS(Layer({.embed_dim = 4, .dropout = 2}, rng),
                       "MultiHeadAttention: dropout is 2; expected a probability in [0, 1]", ValueError);
}

TEST_CASE("MultiHeadAttention: widths, batches and lengths that do not fit are named") {
  Rng rng(1);
  Layer layer({.embed_dim = 8, .num_heads = 2}, rng),
      cross({.embed_dim = 8, .num_heads = 2, .key_dim = 4, .value_dim = 6}, rng);
  const auto of = [](Index batch, Index length, Index width) { return zeros<double>({batch, length, width}); };
  CHECK_THROWS_WITH_AS(layer.forward(of(2, 3, 4)),
                       "MultiHeadAttention: x [2,3,4] has 4 in dim 2; expected 8, embed_dim", ShapeError);
  CHECK_THROWS_WITH_AS(cross.forward(of(2, 3, 8)),
                       "MultiHeadAttention: key_dim or value_dim differ from embed_dim; expected query, key and value",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      cross.forward(of(2, 3, 4), of(2, 5, 4), of(2, 5, 6)),
      "MultiHeadAttention: query [2,3,4] has 4 in dim 2; expected 8, the width that its projection takes", ShapeError);
  CHECK_THROWS_WITH_AS(
      cross.forward(of(2, 3, 8), of(2, 5, 8), of(2, 5, 6)),
      "MultiHeadAttention: key [2,5,8] has 8 in dim 2; expected 4, the width that its projection takes", ShapeError);
  CHECK_THROWS_WITH_AS(
      cross.forward(of(2, 3, 8), of(2, 5, 4), of(2, 5, 8)),
      "MultiHeadAttention: value [2,5,8] has 8 in dim 2; expected 6, the width that its projection takes", ShapeError);
  CHECK_THROWS_WITH_AS(layer.forward(of(2, 3, 8), of(1, 5, 8), of(1, 5, 8)),
                       "MultiHeadAttention: key [1,2,5,4] has 1 in dim 0; expected 2, the batch of query [2,2,3,4]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(layer.forward(of(2, 3, 8), of(2, 5, 8), of(2, 4, 8)),
                       "MultiHeadAttention: value [2,2,4,4] has 4 in dim 2; expected 5, the length of key [2,2,5,4]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(layer.forward(of(2, 3, 8), {.mask = full<bool>({2, 1, 1, 4}, true)}),
                       "MultiHeadAttention: mask [2,1,1,4] has 4 in dim 3; expected 3, or 1, to broadcast to the "
                       "scores [B,Hq,Lq,Lk] [2,2,3,3]",
                       ShapeError);
  Layer::Saved saved;
  (void)layer.forward(of(2, 3, 8), {}, &saved);
  CHECK_THROWS_WITH_AS(layer.backward(of(2, 4, 8), saved),
                       "MultiHeadAttention::backward: dy [2,4,8] has 4 in dim 1; expected 3, the same as the output "
                       "that was saved, [2,3,8]",
                       ShapeError);
}

TEST_CASE("MultiHeadAttention: an empty batch and empty sequences give empty results") {
  Rng rng(1);
  Layer layer({.embed_dim = 8, .num_heads = 2}, rng);
  for (const Shape<3> shape : {Shape<3>{0, 3, 8}, Shape<3>{2, 0, 8}}) {
    const auto x = zeros<double>(shape);
    Layer::Saved saved;
    CHECK(layer.forward(x, {}, &saved).shape() == shape);
    CHECK(layer.backward(x, saved).shape() == shape);
  }
}
