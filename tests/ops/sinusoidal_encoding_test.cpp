// Mirrors include/attensor/ops/sinusoidal_encoding.hpp.

#include "attensor/ops/sinusoidal_encoding.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE("sinusoidal_encoding: sines at even features, cosines at odd ones, of the same angle") {
  for_random_cases(20, [](Rng& rng, Index dim) {
    const Index length = random_between(rng, 1, 60);
    const auto table = sinusoidal_encoding<double>(length, dim);
    REQUIRE(table.shape() == Shape{length, dim});
    auto want = empty_like(table);
    for (Index position = 0; position < length; ++position) {
      for (Index i = 0; 2 * i < dim; ++i) {
        const double angle =
            static_cast<double>(position) / std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(dim));
        want(position, 2 * i) = std::sin(angle);
        if (2 * i + 1 < dim) want(position, 2 * i + 1) = std::cos(angle);  // an odd width drops the last cosine
      }
    }
    CHECK_NEAR(table, want, 1e-13);
  });
}

TEST_CASE("sinusoidal_encoding: position 0 is 0, 1, 0, 1, ...") {
  CHECK(bitwise_equal(sinusoidal_encoding<float>(1, 5), Tensor<float, 2>{{0, 1, 0, 1, 0}}));
}

TEST_CASE("sinusoidal_encoding: far positions keep their digits in float") {
  const Index far = 1'000'000;
  CHECK_NEAR(sinusoidal_encoding<float>(3, 8, far), sinusoidal_encoding<double>(3, 8, far), 1e-6);
}

TEST_CASE("sinusoidal_encoding: a table is the same in parts") {
  const auto all = sinusoidal_encoding<float>(20, 7);
  CHECK(bitwise_equal(sinusoidal_encoding<float>(12, 7, 8), slice(all, 0, 8, 20)));
}

TEST_CASE("sinusoidal_encoding: nothing gives nothing, a negative length is named") {
  CHECK(sinusoidal_encoding<float>(0, 4).shape() == Shape{0, 4});
  CHECK(sinusoidal_encoding<float>(4, 0).shape() == Shape{4, 0});
  CHECK_THROWS_WITH_AS(sinusoidal_encoding<float>(-1, 4), "Tensor: shape [-1,4] has -1 in dim 0; expected 0 or more",
                       ShapeError);
}
