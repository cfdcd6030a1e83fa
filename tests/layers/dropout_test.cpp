// Mirrors include/attensor/layers/dropout.hpp.

#include "attensor/layers/dropout.hpp"

#include <doctest/doctest.h>

#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("Dropout: active only with a generator, and has no parameters") {
  Rng rng(1);
  const Dropout<float> layer(0.5);
  const auto x = normal<float>({4, 9}, rng);
  CHECK(bitwise_equal(layer.forward(x), x));
  CHECK(!bitwise_equal(layer.forward(x, &rng), x));
  CHECK(count_parameters(layer) == 0);
}

TEST_CASE("Dropout: gradients match finite differences") {
  for_random_cases(5, [](Rng& rng, Index size) {
    const auto seed = rng.next64();
    check_layer_gradients(
        Dropout<double>(rng.uniform()),
        [&](const auto& self, const auto& x) {
          Rng mask_rng(seed);
          return self.forward(x, &mask_rng);
        },
        [&](auto& self, const auto& dy, const auto& x) {
          Rng mask_rng(seed);
          Dropout<double>::Saved saved;
          (void)self.forward(x, &mask_rng, &saved);
          return self.backward(dy, saved);
        },
        normal<double>({3, size}, rng));
  });
}

TEST_CASE("Dropout: p outside of [0, 1] is named") {
  CHECK_THROWS_WITH_AS(Dropout<float>(2), "Dropout: p is 2; expected a probability in [0, 1]", ValueError);
  CHECK_THROWS_AS(Dropout<float>{not_a_number}, ValueError);
}
