// Mirrors include/attensor/layers/encoder_layer.hpp.

#include "attensor/layers/encoder_layer.hpp"

#include <doctest/doctest.h>

#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

EncoderLayerOptions random_options(Rng& rng) {
  const Index heads = random_between(rng, 1, 3);
  return {.embed_dim = heads * random_between(rng, 1, 4),
          .num_heads = heads,
          .hidden_dim = random_between(rng, 1, 9),
          .activation = std::array{Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                   Activation::silu}[static_cast<std::size_t>(rng.below(4))],
          .dropout = rng.below(2) == 0 ? 0.3 : 0.0,
          .norm_first = rng.below(2) == 0,
          .eps = 0.1};  // rows of two or three numbers bend too sharply otherwise
}

template <class X>
Tensor<double, 3> sum(const X& a, const X& b) {
  auto y = a;
  for (Index i = 0; i < y.size(); ++i) y.data()[i] += b.data()[i];
  return y;
}

}  // namespace

TEST_CASE("EncoderLayer: post-norm is norm(x + sublayer(x)), pre-norm x + sublayer(norm(x)), twice") {
  for_random_cases(20, [](Rng& rng) {
    auto options = random_options(rng);
    options.dropout = 0;
    const EncoderLayer<double> layer(options, rng);
    const auto x = normal<double>({2, 5, options.embed_dim}, rng);
    const AttentionOptions<double> attention{.mask = random_mask(Shape<4>{2, 1, 1, 5}, rng, 0.7)};
    const auto attend = [&](const auto& a) { return layer.self_attn.forward(a, attention); };
    const auto feed = [&](const auto& a) { return layer.feed_forward.forward(a); };
    Tensor<double, 3> want;
    if (options.norm_first) {
      const auto h = sum(x, attend(layer.norm1.forward(x)));
      want = sum(h, feed(layer.norm2.forward(h)));
    } else {
      const auto h = layer.norm1.forward(sum(x, attend(x)));
      want = layer.norm2.forward(sum(h, feed(h)));
    }
    CHECK_NEAR(layer.forward(x, attention), want, 1e-12);
    EncoderLayer<double>::Saved saved;
    CHECK(bitwise_equal(layer.forward(x, attention, &saved), layer.forward(x, attention)));
  });
}

TEST_CASE("EncoderLayer: gradients match finite differences, post-norm and pre-norm, with dropout and masks") {
  for_random_cases(20, [](Rng& rng) {
    const auto options = random_options(rng);
    const Index length = random_between(rng, 1, 4);
    const auto seed = rng.next64();
    AttentionOptions<double> attention;
    if (rng.below(2) == 0) attention.mask = random_mask(Shape<4>{2, 1, 1, length}, rng, 0.7);
    if (rng.below(2) == 0) attention.causal = Causal::top_left;
    const auto run = [&](const auto& self, const auto& x, EncoderLayer<double>::Saved* saved) {
      Rng mask_rng(seed);
      auto own = attention;
      own.rng = &mask_rng;
      return self.forward(x, own, saved);
    };
    check_layer_gradients(
        EncoderLayer<double>(options, rng), [&](const auto& self, const auto& x) { return run(self, x, nullptr); },
        [&](auto& self, const auto& dy, const auto& x) {
          EncoderLayer<double>::Saved saved;
          (void)run(self, x, &saved);
          return self.backward(dy, saved);
        },
        normal<double>({2, length, options.embed_dim}, rng));
  });
}

TEST_CASE(
    "EncoderLayer: dropout acts on the weights, after each sublayer and after the activation; without a generator "
    "nowhere") {
  Rng rng(1);
  const EncoderLayer<float> layer({.embed_dim = 8, .num_heads = 2, .dropout = 1}, rng);
  const auto x = normal<float>({1, 4, 8}, rng);
  CHECK(all_finite(layer.forward(x)));
  // Everything dropped: what is left are the two norms of x itself.
  CHECK(bitwise_equal(layer.forward(x, {.rng = &rng}), layer.norm2.forward(layer.norm1.forward(x))));
  CHECK(layer.self_attn.dropout == 1);
  CHECK(layer.feed_forward.dropout == 1);
}

TEST_CASE("EncoderLayer: what does not fit is named") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(EncoderLayer<float>({.embed_dim = 10, .num_heads = 4}, rng),
                       "MultiHeadAttention: num_heads is 4; expected a divisor of embed_dim 10", ValueError);
  CHECK_THROWS_AS(EncoderLayer<float>({.embed_dim = 8, .num_heads = 2, .hidden_dim = -1}, rng), ValueError);
  CHECK_THROWS_AS(EncoderLayer<float>({.embed_dim = 8, .num_heads = 2, .dropout = 2}, rng), ValueError);
  const EncoderLayer<float> layer({.embed_dim = 8, .num_heads = 2}, rng);
  CHECK_THROWS_WITH_AS(layer.forward(zeros<float>({2, 3, 7})),
                       "MultiHeadAttention: x [2,3,7] has 7 in dim 2; expected 8, embed_dim", ShapeError);
}
