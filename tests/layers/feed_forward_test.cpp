// Mirrors include/attensor/layers/feed_forward.hpp.

#include "attensor/layers/feed_forward.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

constexpr std::array all_kinds = {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu};

}  // namespace

TEST_CASE("FeedForward: linear2 of the activation of linear1, and the same bits whether it saves or not") {
  for_random_cases(10, [](Rng& rng, Index embed) {
    const auto kind = all_kinds[static_cast<std::size_t>(rng.below(4))];
    const FeedForward<float> layer(
        {.embed_dim = embed, .hidden_dim = awkward_size(rng), .activation = kind, .bias = rng.below(2) == 0}, rng);
    const auto x = normal<float>({2, 3, embed}, rng);
    const auto y = layer.forward(x);
    CHECK(bitwise_equal(y, layer.linear2.forward(activation(layer.linear1.forward(x), kind))));
    FeedForward<float>::Saved saved;
    CHECK(bitwise_equal(layer.forward(x, nullptr, &saved), y));
  });
}

TEST_CASE("FeedForward: is four times as wide inside by default") {
  Rng rng(1);
  const FeedForward<float> layer({.embed_dim = 3}, rng);
  CHECK(layer.linear1.weight.value.shape() == Shape{12, 3});
  CHECK(layer.linear2.weight.value.shape() == Shape{3, 12});
}

TEST_CASE("FeedForward: gradients match finite differences, for each activation, with and without bias and dropout") {
  for (const Activation kind : all_kinds) {
    for_random_cases(4, [&](Rng& rng) {
      const Index embed = random_between(rng, 1, 9);
      const auto seed = rng.next64();
      check_layer_gradients(
          FeedForward<double>({.embed_dim = embed,
                               .hidden_dim = random_between(rng, 1, 20),
                               .activation = kind,
                               .bias = rng.below(2) == 0,
                               .dropout = rng.below(2) == 0 ? 0.4 : 0.0},
                              rng),
          [&](const auto& self, const auto& x) {
            Rng mask_rng(seed);
            return self.forward(x, &mask_rng);
          },
          [&](auto& self, const auto& dy, const auto& x) {
            Rng mask_rng(seed);
            FeedForward<double>::Saved saved;
            (void)self.forward(x, &mask_rng, &saved);
            return self.backward(dy, saved);
          },
          normal<double>({2, 3, embed}, rng));
    });
  }
}

TEST_CASE("FeedForward: what does not fit is named") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(FeedForward<float>({.embed_dim = 0}, rng), "FeedForward: embed_dim is 0; expected 1 or more",
                       ValueError);
  CHECK_THROWS_WITH_AS(FeedForward<float>({.embed_dim = 4, .hidden_dim = -1}, rng),
                       "FeedForward: hidden_dim is -1; expected 1 or more, or 0 for 4 * embed_dim", ValueError);
  CHECK_THROWS_WITH_AS(FeedForward<float>({.embed_dim = 4, .dropout = 1.5}, rng),
                       "FeedForward: dropout is 1.5; expected a probability in [0, 1]", ValueError);
  const FeedForward<float> layer({.embed_dim = 4}, rng);
  CHECK_THROWS_WITH_AS(layer.forward(zeros<float>({2, 5})),
                       "linear: x [2,5] has 5 in dim 1; expected 4, the input width of weight [16,4]", ShapeError);
}
