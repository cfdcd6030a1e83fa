// Mirrors include/attensor/layers/positional_encoding.hpp.

#include "attensor/layers/positional_encoding.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("SinusoidalPositionalEncoding: adds the encoding to each sequence, also past the table") {
  for_random_cases(10, [](Rng& rng, Index dim) {
    const Index length = random_between(rng, 0, 12);
    const SinusoidalPositionalEncoding<float> layer(dim, 5);
    const auto x = normal<float>({3, length, dim}, rng);
    const auto y = layer.forward(x);
    const auto table = sinusoidal_encoding<float>(length, dim);
    bool same = true;
    for (Index b = 0; b < 3; ++b) {
      for (Index s = 0; s < length; ++s) {
        for (Index d = 0; d < dim; ++d) same = same && bitwise_equal(y(b, s, d), x(b, s, d) + table(s, d));
      }
    }
    CHECK(same);
  });
  CHECK(count_parameters(SinusoidalPositionalEncoding<float>(4)) == 0);
}

TEST_CASE("SinusoidalPositionalEncoding: another width is named") {
  const SinusoidalPositionalEncoding<float> layer(4);
  CHECK_THROWS_WITH_AS(layer.forward(zeros<float>({1, 2, 5})),
                       "SinusoidalPositionalEncoding: x [1,2,5] has 5 in dim 2; expected 4, the width of the encoding",
                       ShapeError);
  CHECK_THROWS_WITH_AS(SinusoidalPositionalEncoding<float>(0),
                       "SinusoidalPositionalEncoding: dim is 0; expected 1 or more", ValueError);
}

TEST_CASE("LearnedPositionalEncoding: gradients match finite differences") {
  for_random_cases(8, [](Rng& rng, Index dim) {
    const Index length = random_between(rng, 1, 6);
    check_layer_gradients(
        LearnedPositionalEncoding<double>({.max_length = 6, .dim = dim}, rng),
        [](const auto& self, const auto& x) { return self.forward(x); },
        [](auto& self, const auto& dy, const auto&) {
          self.backward(dy);
          return dy;  // of x: the gradient itself
        },
        normal<double>({random_between(rng, 1, 3), length, dim}, rng));
  });
}

TEST_CASE("LearnedPositionalEncoding: positions beyond the learned ones are an error, and resize makes room") {
  Rng rng(1);
  LearnedPositionalEncoding<float> layer({.max_length = 4, .dim = 3}, rng);
  const auto before = layer.weight.value;
  const auto x = normal<float>({2, 6, 3}, rng);
  CHECK(layer.forward(slice(x, 1, 0, 4)).shape() == Shape{2, 4, 3});
  CHECK_THROWS_WITH_AS(layer.forward(x),
                       "LearnedPositionalEncoding: x [2,6,3] has 6 in dim 1; expected at most 4, the positions that "
                       "were learned (resize "
                       "makes room for more)",
                       ShapeError);
  CHECK(bitwise_equal(layer.at(3), before[3]));
  CHECK_THROWS_WITH_AS(layer.at(4), "LearnedPositionalEncoding::at: position is 4; expected a position in [0, 4)",
                       ValueError);
  CHECK_THROWS_WITH_AS(layer.at(-1), "LearnedPositionalEncoding::at: position is -1; expected a position in [0, 4)",
                       ValueError);

  layer.resize(6, rng);
  CHECK(layer.max_length() == 6);
  CHECK(bitwise_equal(slice(layer.weight.value, 0, 0, 4), before));
  CHECK(layer.forward(x).shape() == Shape{2, 6, 3});
  layer.resize(2, rng);
  CHECK(bitwise_equal(layer.weight.value, slice(before, 0, 0, 2)));
  CHECK_THROWS_WITH_AS(layer.resize(0, rng), "LearnedPositionalEncoding::resize: length is 0; expected 1 or more",
                       ValueError);
  CHECK_THROWS_AS(layer.backward(zeros<float>({1, 3, 3})), ValueError);
}

TEST_CASE("LearnedPositionalEncoding: what does not fit is named") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(LearnedPositionalEncoding<float>({.max_length = 0, .dim = 3}, rng),
                       "LearnedPositionalEncoding: max_length is 0; expected 1 or more", ValueError);
  LearnedPositionalEncoding<float> layer({.max_length = 4, .dim = 3}, rng);
  CHECK_THROWS_AS(layer.forward(zeros<float>({1, 2, 4})), ShapeError);
  CHECK_THROWS_WITH_AS(
      layer.backward(zeros<float>({1, 2, 4})),
      "LearnedPositionalEncoding::backward: dy [1,2,4] has 4 in dim 2; expected 3, the width of weight [4,3]",
      ShapeError);
}
