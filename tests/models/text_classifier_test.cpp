// Mirrors include/attensor/models/text_classifier.hpp.

#include "attensor/models/text_classifier.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "attensor/ops/cross_entropy.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

/// Ids in [1, vocab_size), and padding_idx 0 now and then behind them.
Tensor<std::int64_t, 2> random_ids(Index batch, Index length, Index vocab_size, Rng& rng) {
  Tensor<std::int64_t, 2> ids(Shape{batch, length});
  for (Index b = 0; b < batch; ++b) {
    const Index real = random_between(rng, 1, length);
    for (Index s = 0; s < real; ++s) ids(b, s) = random_between(rng, 1, vocab_size - 1);
  }
  return ids;
}

TextClassifierOptions small_options(Pooling pooling) {
  return {.vocab_size = 7,
          .embed_dim = 6,
          .num_heads = 2,
          .num_layers = 1,
          .num_classes = 3,
          .hidden_dim = 5,
          .max_length = 4,
          .pooling = pooling};
}

}  // namespace

TEST_CASE("TextClassifier: parameters have PyTorch's names, shapes and order, so that a state dict loads as it is") {
  Rng rng(1);
  TextClassifier<float> model({.vocab_size = 32, .embed_dim = 8, .num_heads = 2, .num_layers = 2, .num_classes = 3},
                              rng);
  std::vector<std::string> all;
  visit_parameters(model, [&](const ParameterPath& path, const auto& parameter) {
    all.push_back(path.str() + ' ' + shape_text(parameter.value.shape()));
  });
  const std::vector<std::string> wanted = {
      "embedding.weight [32,8]",
      "encoder.layers.0.self_attn.in_proj_weight [24,8]",
      "encoder.layers.0.self_attn.in_proj_bias [24]",
      "encoder.layers.0.self_attn.out_proj.weight [8,8]",
      "encoder.layers.0.self_attn.out_proj.bias [8]",
      "encoder.layers.0.linear1.weight [32,8]",
      "encoder.layers.0.linear1.bias [32]",
      "encoder.layers.0.linear2.weight [8,32]",
      "encoder.layers.0.linear2.bias [8]",
      "encoder.layers.0.norm1.weight [8]",
      "encoder.layers.0.norm1.bias [8]",
      "encoder.layers.0.norm2.weight [8]",
      "encoder.layers.0.norm2.bias [8]",
      "encoder.layers.1.self_attn.in_proj_weight [24,8]",
      "encoder.layers.1.self_attn.in_proj_bias [24]",
      "encoder.layers.1.self_attn.out_proj.weight [8,8]",
      "encoder.layers.1.self_attn.out_proj.bias [8]",
      "encoder.layers.1.linear1.weight [32,8]",
      "encoder.layers.1.linear1.bias [32]",
      "encoder.layers.1.linear2.weight [8,32]",
      "encoder.layers.1.linear2.bias [8]",
      "encoder.layers.1.norm1.weight [8]",
      "encoder.layers.1.norm1.bias [8]",
      "encoder.layers.1.norm2.weight [8]",
      "encoder.layers.1.norm2.bias [8]",
      "classifier.weight [3,8]",
      "classifier.bias [3]",
  };
  CHECK(all == wanted);
  CHECK(count_parameters(model) ==
        32 * 8 + 2 * (24 * 8 + 24 + 8 * 8 + 8 + 32 * 8 + 32 + 8 * 32 + 8 + 4 * 8) + 3 * 8 + 3);
}

TEST_CASE("TextClassifier: a key and value projection of their own, and a final norm, have PyTorch's names too") {
  Rng rng(1);
  const auto names = [](const auto& module) {
    std::vector<std::string> all;
    visit_parameters(module, [&](const ParameterPath& path, const auto&) { all.push_back(path.str()); });
    return all;
  };
  using Names = std::vector<std::string>;
  const MultiHeadAttention<float> cross({.embed_dim = 4, .num_heads = 2, .key_dim = 3, .value_dim = 5}, rng);
  CHECK(names(cross) ==
        Names{"q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"});
  const MultiHeadAttention<float> plain({.embed_dim = 4, .num_heads = 2, .bias = false}, rng);
  CHECK(names(plain) == Names{"in_proj_weight", "out_proj.weight"});
  const Encoder<float> encoder({.layer = {.embed_dim = 4}, .num_layers = 0, .final_norm = true}, rng);
  CHECK(names(encoder) == Names{"norm.weight", "norm.bias"});
}

TEST_CASE("TextClassifier: logits are the classifier of the pooled encoding of embedding and positions") {
  for (const Pooling pooling : {Pooling::first, Pooling::mean}) {
    for_random_cases(10, [&](Rng& rng) {
      const TextClassifier<double> model(small_options(pooling), rng);
      const auto ids = random_ids(3, random_between(rng, 1, 6), 7, rng);  // also longer than the table of positions
      const auto encoded =
          model.encoder.forward(model.positions.forward(model.embedding.forward(ids)), {.mask = padding_mask(ids)});
      auto pooled = zeros<double>({3, 6});
      for (Index b = 0; b < 3; ++b) {
        Index count = 0;
        for (Index s = 0; s < ids.extent(1); ++s) count += ids(b, s) != 0;
        for (Index d = 0; d < 6; ++d) {
          double sum = 0;
          for (Index s = 0; s < count; ++s) sum += encoded(b, s, d);
          pooled(b, d) = pooling == Pooling::first ? encoded(b, 0, d) : sum / static_cast<double>(count);
        }
      }
      CHECK_NEAR(model.forward(ids), model.classifier.forward(pooled), 1e-13);
      TextClassifier<double>::Saved saved;
      CHECK(bitwise_equal(model.forward(ids, {}, &saved), model.forward(ids)));
    });
  }
}

TEST_CASE(
    "TextClassifier: gradients match finite differences, with both poolings, padding, dropout and a mask of one's "
    "own") {
  for (const Pooling pooling : {Pooling::first, Pooling::mean}) {
    for_random_cases(6, [&](Rng& rng) {
      auto wanted = small_options(pooling);
      wanted.dropout = rng.below(2) == 0 ? 0.3 : 0.0;
      wanted.padding_idx = rng.below(4) == 0 ? -1 : 0;
      TextClassifier<double> model(wanted, rng);
      for (auto& layer : model.encoder.layers)
        layer.norm1.eps = layer.norm2.eps = 0.1;  // so that differences can follow
      const auto ids = random_ids(3, random_between(rng, 1, 6), 7, rng);
      AttentionOptions<double> options;
      if (rng.below(2) == 0) options.mask = causal_mask(ids.extent(1));
      const auto seed = rng.next64();
      const auto run = [&](const auto& self, TextClassifier<double>::Saved* saved) {
        Rng mask_rng(seed);
        auto own = options;
        own.rng = &mask_rng;
        return self.forward(ids, own, saved);
      };
      check_layer_gradients(
          model, [&](const auto& self) { return run(self, nullptr); },
          [&](auto& self, const auto& dy) {
            TextClassifier<double>::Saved saved;
            (void)run(self, &saved);
            self.backward(dy, saved);
            return std::tuple{};
          });
    });
  }
}

TEST_CASE("TextClassifier: the embedding of the padding reaches no logit and no gradient") {
  for (const Pooling pooling : {Pooling::first, Pooling::mean}) {
    const Tensor<std::int64_t, 2> ids = {{3, 1, 0, 0}, {2, 0, 5, 6}};
    const auto with = [&](float padding, auto&& check) {
      Rng rng(1);
      TextClassifier<float> model(small_options(pooling), rng);
      std::fill_n(model.embedding.weight.value.data(), 6, padding);
      TextClassifier<float>::Saved saved;
      const auto logits = model.forward(ids, {}, &saved);
      if (std::isfinite(padding)) model.backward(logits, saved);
      check(model, logits);
    };
    with(0, [&](auto& clean, const auto& wanted) {
      with(1000, [&](auto& model, const auto& logits) {
        CHECK(bitwise_equal(logits, wanted));
        CHECK(bitwise_equal(model.embedding.weight.grad, clean.embedding.weight.grad));
        CHECK(bitwise_equal(model.embedding.weight.grad[0], zeros<float>({6})));
        const auto &layer = model.encoder.layers[0], &clean_layer = clean.encoder.layers[0];
        CHECK(bitwise_equal(layer.self_attn.in_proj_weight.grad, clean_layer.self_attn.in_proj_weight.grad));
        CHECK(bitwise_equal(layer.feed_forward.linear1.weight.grad, clean_layer.feed_forward.linear1.weight.grad));
      });
      with(static_cast<float>(not_a_number), [&](auto&, const auto& logits) { CHECK(bitwise_equal(logits, wanted)); });
    });
  }
}

TEST_CASE("TextClassifier: a sequence of nothing but padding has finite logits and gradients") {
  Rng rng(1);
  TextClassifier<float> model(small_options(Pooling::mean), rng);
  const Tensor<std::int64_t, 2> ids = {{0, 0, 0}, {2, 5, 0}};
  TextClassifier<float>::Saved saved;
  const auto logits = model.forward(ids, {}, &saved);
  CHECK(bitwise_equal(logits[0], model.classifier.bias.value));  // the mean of no tokens is zeros
  model.backward(logits, saved);
  visit_parameters(model, [](const ParameterPath& path, const auto& parameter) {
    INFO(path.str());
    CHECK(all_finite(parameter.grad));
  });
}

TEST_CASE(
    "TextClassifier: a text has the same logits alone and in any batch, at any place, padded or not, to the bit") {
  for (const Pooling pooling : {Pooling::first, Pooling::mean}) {
    for_random_cases(15, [&](Rng& rng) {
      const TextClassifier<float> model({.vocab_size = 30,
                                         .embed_dim = 3 * random_between(rng, 1, 20),
                                         .num_heads = 3,
                                         .num_layers = 2,
                                         .num_classes = random_between(rng, 1, 9),
                                         .max_length = 20,
                                         .pooling = pooling},
                                        rng);
      const Index texts = random_between(rng, 1, 6);
      std::vector<Tensor<std::int64_t, 2>> alone;
      Index longest = random_between(rng, 0, 45);
      for (Index b = 0; b < texts; ++b) {
        Tensor<std::int64_t, 2> ids(Shape{1, random_between(rng, 1, 40)});
        for (Index s = 0; s < ids.size(); ++s) ids(0, s) = random_between(rng, 1, 29);
        longest = std::max(longest, ids.size());
        alone.push_back(std::move(ids));
      }
      Tensor<std::int64_t, 2> batch(Shape{texts, longest});
      for (Index b = 0; b < texts; ++b) {
        const auto& ids = alone[static_cast<std::size_t>(b)];
        std::copy_n(ids.data(), ids.size(), batch[b].data());
      }
      const auto logits = model.forward(batch);
      for (Index b = 0; b < texts; ++b) {
        const auto& ids = alone[static_cast<std::size_t>(b)];
        INFO("text ", b, " of ", ids.size(), " tokens in a batch ", shape_text(batch.shape()));
        CHECK(bitwise_equal(model.forward(ids)[0], logits[b]));
      }
    });
  }
}

TEST_CASE("TextClassifier: packed for inference it has the same bits") {
  Rng rng(1);
  TextClassifier<float> model({.vocab_size = 30, .embed_dim = 48, .num_heads = 4, .num_layers = 2}, rng);
  const auto ids = random_ids(3, 11, 30, rng);
  const auto logits = model.forward(ids);
  model.pack();
  CHECK(bitwise_equal(model.forward(ids), logits));
  model.unpack();
  CHECK(bitwise_equal(model.forward(ids), logits));
}

TEST_CASE("TextClassifier: an empty batch has no logits, an empty sequence only a mean") {
  Rng rng(1);
  const TextClassifier<float> first(small_options(Pooling::first), rng), mean(small_options(Pooling::mean), rng);
  CHECK(first.forward(Tensor<std::int64_t, 2>(Shape{0, 4})).shape() == Shape{0, 3});
  CHECK(mean.forward(Tensor<std::int64_t, 2>(Shape{2, 0})).shape() == Shape{2, 3});
  CHECK_THROWS_WITH_AS(first.forward(Tensor<std::int64_t, 2>(Shape{2, 0})),
                       "TextClassifier: ids [2,0] has 0 in dim 1; expected 1 or more, since the first token is pooled",
                       ShapeError);
}

TEST_CASE("TextClassifier: what does not fit is named") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(TextClassifier<float>({.vocab_size = 5, .embed_dim = 6, .num_heads = 4}, rng),
                       "MultiHeadAttention: num_heads is 4; expected a divisor of embed_dim 6", ValueError);
  CHECK_THROWS_WITH_AS(TextClassifier<float>({.vocab_size = 5, .embed_dim = 6, .num_classes = 0}, rng),
                       "Linear: out_dim is 0; expected 1 or more", ValueError);
  CHECK_THROWS_WITH_AS(TextClassifier<float>({.vocab_size = 5, .embed_dim = 6, .padding_idx = 5}, rng),
                       "Embedding: padding_idx is 5; expected an id below vocab_size 5, or -1 for none", ValueError);
  TextClassifier<float> model(small_options(Pooling::first), rng);
  CHECK_THROWS_WITH_AS(model.forward(Tensor<std::int64_t, 2>{{1, 2}, {7, 3}}),
                       "embedding: ids [2,2] has 7 at [1,0]; expected an id in [0, 7), the rows of weight", ValueError);
  TextClassifier<float>::Saved saved;
  (void)model.forward(Tensor<std::int64_t, 2>{{1, 2}, {3, 4}}, {}, &saved);
  CHECK_THROWS_WITH_AS(model.backward(zeros<float>({2, 4}), saved),
                       "Linear::backward: dy [2,4] has 4 in dim 1; expected 3, the output width of weight [3,6]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(model.backward(zeros<float>({3, 3}), saved),
                       "Linear::backward: saved.x [2,6] has 2 in dim 0; expected 3, the number of rows of dy [3,3]",
                       ShapeError);
}
