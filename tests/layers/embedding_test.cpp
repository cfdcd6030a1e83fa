// Mirrors include/attensor/layers/embedding.hpp.

#include "attensor/layers/embedding.hpp"

#include <doctest/doctest.h>

#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

Tensor<std::int64_t, 2> random_ids(Rng& rng, Index vocab_size) {
  Tensor<std::int64_t, 2> ids(random_shape<2>(rng));
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = rng.below(vocab_size);
  return ids;
}

}  // namespace

TEST_CASE("Embedding: starts as N(0, 1), with zeros in the row of the padding") {
  Rng rng(1);
  const Embedding<double> layer({.vocab_size = 100, .embed_dim = 200, .padding_idx = 3}, rng);
  CHECK(bitwise_equal(layer.weight.value[3], zeros<double>({200})));
  double sum = 0, squares = 0;
  for (Index i = 0; i < layer.weight.value.size(); ++i) {
    sum += layer.weight.value.data()[i];
    squares += layer.weight.value.data()[i] * layer.weight.value.data()[i];
  }
  CHECK(std::abs(sum / 19800) < 0.03);
  CHECK(std::abs(squares / 19800 - 1) < 0.04);
}

TEST_CASE("Embedding: gradients match finite differences") {
  for_random_cases(8, [](Rng& rng, Index dim) {
    const Index vocab_size = random_between(rng, 1, 6);
    const auto ids = random_ids(rng, vocab_size);
    check_layer_gradients(
        Embedding<double>({.vocab_size = vocab_size, .embed_dim = dim}, rng),
        [&](const auto& self) { return self.forward(ids); },
        [&](auto& self, const auto& dy) {
          Embedding<double>::Saved saved;
          (void)self.forward(ids, &saved);
          self.backward(dy, saved);
          return std::tuple{};
        });
  });
}

TEST_CASE("Embedding: the padding gets no gradient, and backward adds") {
  Rng rng(1);
  Embedding<float> layer({.vocab_size = 4, .embed_dim = 2, .padding_idx = 0}, rng);
  Embedding<float>::Saved saved;
  (void)layer.forward(Tensor<std::int64_t, 2>{{0, 2, 2}}, &saved);
  for (int i = 0; i < 2; ++i) layer.backward(ones<float>({1, 3, 2}), saved);
  CHECK(bitwise_equal(layer.weight.grad, Tensor<float, 2>{{0, 0}, {0, 0}, {4, 4}, {0, 0}}));
}

TEST_CASE("Embedding: what does not fit is named") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(Embedding<float>({.vocab_size = 0, .embed_dim = 2}, rng),
                       "Embedding: vocab_size is 0; expected 1 or more", ValueError);
  CHECK_THROWS_WITH_AS(Embedding<float>({.vocab_size = 3, .embed_dim = 0}, rng),
                       "Embedding: embed_dim is 0; expected 1 or more", ValueError);
  CHECK_THROWS_WITH_AS(Embedding<float>({.vocab_size = 3, .embed_dim = 2, .padding_idx = 3}, rng),
                       "Embedding: padding_idx is 3; expected an id below vocab_size 3, or -1 for none", ValueError);
  Embedding<float> layer({.vocab_size = 3, .embed_dim = 2}, rng);
  CHECK_THROWS_WITH_AS(layer.forward(Tensor<std::int64_t, 1>{0, 3}),
                       "embedding: ids [2] has 3 at [1]; expected an id in [0, 3), the rows of weight", ValueError);
  Embedding<float>::Saved saved;
  (void)layer.forward(Tensor<std::int64_t, 1>{0, 2}, &saved);
  CHECK_THROWS_WITH_AS(layer.backward(zeros<float>({2, 3}), saved),
                       "Embedding::backward: dy [2,3] has 3 in dim 1; expected 2, the width of weight [3,2]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(layer.backward(zeros<float>({3, 2}), saved),
                       "embedding_backward: dy [3,2] has 3 in dim 0; expected 2, as in ids [2]", ShapeError);
}
