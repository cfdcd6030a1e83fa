// Mirrors examples/digits/digit_classifier.hpp.

#include "../../examples/digits/digit_classifier.hpp"

#include <doctest/doctest.h>

#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("digit classifier: gradients match finite differences") {
  for_random_cases(3, [](Rng& rng) {
    const example::DigitClassifierOptions options{
        .rows = 5, .columns = 3, .classes = 4, .embed_dim = 6, .num_heads = 2, .num_layers = 2, .hidden_dim = 7};
    const auto images = normal<double>({2, 5, 3}, rng);
    check_layer_gradients(
        example::DigitClassifier<double>(options, rng), [&](const auto& model) { return model.forward(images); },
        [&](auto& model, const auto& dy) {
          typename example::DigitClassifier<double>::Saved saved;
          (void)model.forward(images, nullptr, &saved);
          model.backward(dy, saved);
          return std::tuple{};
        });
  });
}

TEST_CASE("digit classifier: as many parameters as PyTorch's, and dropout only with a generator") {
  Rng rng(1);
  const example::DigitClassifier<float> model({}, rng);
  CHECK(count_parameters(model) == 68'682);
  const auto images = normal<float>({3, 8, 8}, rng);
  CHECK(bitwise_equal(model.forward(images), model.forward(images)));
  CHECK_FALSE(bitwise_equal(model.forward(images, &rng), model.forward(images)));
}
