// Mirrors include/attensor/layers/encoder.hpp.

#include "attensor/layers/encoder.hpp"

#include <doctest/doctest.h>

#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("Encoder: its layers one behind the other, then the final norm where there is one") {
  for (const bool final_norm : {false, true}) {
    Rng rng(1);
    Encoder<float> encoder(
        {.layer = {.embed_dim = 6, .num_heads = 2, .norm_first = true}, .num_layers = 3, .final_norm = final_norm},
        rng);
    if (final_norm) encoder.norm.weight.value = normal<float>({6}, rng);
    const auto x = normal<float>({2, 5, 6}, rng);
    const AttentionOptions<float> options{.causal = Causal::top_left};
    auto want = x;
    for (const auto& layer : encoder.layers) want = layer.forward(want, options);
    if (final_norm) want = encoder.norm.forward(want);
    CHECK(bitwise_equal(encoder.forward(x, options), want));
    Encoder<float>::Saved saved;
    CHECK(bitwise_equal(encoder.forward(x, options, &saved), want));
  }
}

TEST_CASE("Encoder: each layer is initialised on its own") {
  Rng rng(1);
  const Encoder<float> encoder({.layer = {.embed_dim = 4, .num_heads = 1}, .num_layers = 2}, rng);
  CHECK(!bitwise_equal(encoder.layers[0].self_attn.in_proj_weight.value,
                       encoder.layers[1].self_attn.in_proj_weight.value));
}

TEST_CASE("Encoder: without layers x is what comes out, and its gradient what goes in") {
  Rng rng(1);
  Encoder<float> encoder({.layer = {.embed_dim = 4}, .num_layers = 0}, rng);
  const auto x = normal<float>({2, 3, 4}, rng);
  Encoder<float>::Saved saved;
  CHECK(bitwise_equal(encoder.forward(x, {}, &saved), x));
  CHECK(bitwise_equal(encoder.backward(x, saved), x));
}

TEST_CASE("Encoder: gradients match finite differences, with and without final norm, with padding and dropout") {
  for_random_cases(8, [](Rng& rng) {
    const Index heads = random_between(rng, 1, 2), embed = heads * random_between(rng, 2, 3),
                length = random_between(rng, 1, 4);
    const auto seed = rng.next64();
    AttentionOptions<double> options;
    if (rng.below(2) == 0) options.mask = random_mask(Shape<4>{2, 1, 1, length}, rng, 0.7);
    if (rng.below(2) == 0) options.key_lengths = Tensor<Index, 1>{length, random_between(rng, 0, length)};
    const auto run = [&](const auto& self, const auto& x, Encoder<double>::Saved* saved) {
      Rng mask_rng(seed);
      auto own = options;
      own.rng = &mask_rng;
      return self.forward(x, own, saved);
    };
    check_layer_gradients(
        Encoder<double>({.layer = {.embed_dim = embed,
                                   .num_heads = heads,
                                   .hidden_dim = 5,
                                   .activation = Activation::gelu,
                                   .dropout = rng.below(2) == 0 ? 0.2 : 0.0,
                                   .norm_first = rng.below(2) == 0,
                                   .eps = 0.1},  // rows of two or three numbers bend too sharply otherwise
                         .num_layers = 2,
                         .final_norm = rng.below(2) == 0},
                        rng),
        [&](const auto& self, const auto& x) { return run(self, x, nullptr); },
        [&](auto& self, const auto& dy, const auto& x) {
          Encoder<double>::Saved saved;
          (void)run(self, x, &saved);
          return self.backward(dy, saved);
        },
        normal<double>({2, length, embed}, rng));
  });
}

TEST_CASE("Encoder: packed for inference it has the same bits") {
  Rng rng(1);
  Encoder<float> encoder({.layer = {.embed_dim = 40, .num_heads = 4}, .num_layers = 2}, rng);
  const auto x = normal<float>({2, 9, 40}, rng);
  const auto y = encoder.forward(x);
  encoder.pack();
  CHECK(bitwise_equal(encoder.forward(x), y));
  encoder.unpack();
  CHECK(bitwise_equal(encoder.forward(x), y));
}

TEST_CASE("Encoder: a copy is one of its own") {
  Rng rng(1);
  Encoder<float> encoder({.layer = {.embed_dim = 4, .num_heads = 2}, .num_layers = 1}, rng);
  const auto x = normal<float>({1, 3, 4}, rng);
  const auto copy = encoder;
  const auto y = encoder.forward(x);
  std::fill_n(encoder.layers[0].self_attn.in_proj_weight.value.data(), 10, 3.0f);
  CHECK(!bitwise_equal(encoder.forward(x), y));
  CHECK(bitwise_equal(copy.forward(x), y));
}

TEST_CASE("Encoder: what does not fit is named") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(Encoder<float>({.layer = {.embed_dim = 4}, .num_layers = -1}, rng),
                       "Encoder: num_layers is -1; expected 0 or more", ValueError);
  Encoder<float> encoder({.layer = {.embed_dim = 4}, .num_layers = 2}, rng);
  CHECK_THROWS_WITH_AS(
      encoder.backward(zeros<float>({1, 3, 4}), {}),
      "Encoder::backward: the number of saved layers is 0; expected 2, as forward of this encoder saves", ValueError);
}
