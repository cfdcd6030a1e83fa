// Mirrors include/attensor/ops/dropout.hpp.

#include "attensor/ops/dropout.hpp"

#include <doctest/doctest.h>

#include "attensor/core/layout.hpp"
#include "support/gradient_check.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("dropout: without a generator, or with p = 0, nothing is dropped and no mask is drawn") {
  Rng rng(1);
  const auto x = normal<float>({3, 5}, rng);
  const auto before = rng.state();
  CHECK(!DropoutMask(0, &rng).active());
  CHECK(rng.state() == before);
  CHECK(!DropoutMask(0.5, nullptr).active());
  CHECK(!DropoutMask().active());
  CHECK(bitwise_equal(dropout(x, DropoutMask(0.5, nullptr)), x));
}

TEST_CASE_TEMPLATE("dropout: an element is 0 or scaled by 1 / (1 - p), and as many are 0 as p says", T, float, double) {
  for (const double p : {0.1, 0.25, 0.5, 0.9}) {
    Rng rng(7);
    const auto y = dropout(ones<T>({200, 250}), DropoutMask(p, &rng));
    Index dropped = 0;
    bool exact = true;
    for (Index i = 0; i < y.size(); ++i) {
      dropped += y.data()[i] == 0;
      exact = exact && (y.data()[i] == 0 || is_near(static_cast<double>(y.data()[i]), 1 / (1 - p), 1e-4));
    }
    CHECK(exact);
    const double share = static_cast<double>(dropped) / 50000, spread = std::sqrt(p * (1 - p) / 50000);
    CHECK(std::abs(share - p) < 5 * spread);
  }
}

TEST_CASE("dropout: p = 1 drops everything") {
  Rng rng(1);
  CHECK(bitwise_equal(dropout(ones<float>({40, 7}), DropoutMask(1, &rng)), zeros<float>({40, 7})));
}

TEST_CASE("dropout: the mask is a function of seed, number and logical index; not of shape, view or threads") {
  const auto mask_of = [](std::uint64_t seed, int number) {
    Rng rng(seed);
    for (int i = 0; i < number; ++i) (void)rng.next_mask();
    return DropoutMask(0.5, &rng);
  };
  const auto x = ones<float>({40, 500});
  const auto y = dropout(x, mask_of(3, 0));
  CHECK(bitwise_equal(dropout(x, mask_of(3, 0)), y));
  CHECK(!bitwise_equal(dropout(x, mask_of(3, 1)), y));
  CHECK(!bitwise_equal(dropout(x, mask_of(4, 0)), y));
  CHECK(bitwise_equal(dropout(ones<float>({20000}), mask_of(3, 0)), y.reshape(Shape{20000})));
  const auto wide = ones<float>({20000, 3});
  CHECK(bitwise_equal(dropout(slice(wide, 1, 1, 2), mask_of(3, 0)).reshape(Shape{20000}), y.reshape(Shape{20000})));
  const int threads = get_num_threads();
  for (const int n : {1, 3}) {
    set_num_threads(n);
    CHECK(bitwise_equal(dropout(x, mask_of(3, 0)), y));
  }
  set_num_threads(threads);
}

TEST_CASE("dropout: a float and a double tensor are dropped at the same places") {
  Rng rng(5), same(5);
  const auto y = dropout(ones<float>({333}), DropoutMask(0.3, &rng));
  CHECK(bitwise_equal(to<float>(dropout(ones<double>({333}), DropoutMask(0.3, &same))), y));
}

TEST_CASE("dropout: neighbouring rows and masks share nothing") {
  Rng rng(11);
  const Index n = 4096;
  const auto a = dropout(ones<double>({n}), DropoutMask(0.5, &rng)),
             b = dropout(ones<double>({n}), DropoutMask(0.5, &rng));
  Index both = 0, next = 0;
  for (Index i = 0; i < n; ++i) both += a(i) > 0 && b(i) > 0;
  for (Index i = 0; i + 1 < n; ++i) next += a(i) > 0 && a(i + 1) > 0;
  CHECK(std::abs(static_cast<double>(both) / static_cast<double>(n) - 0.25) < 0.04);
  CHECK(std::abs(static_cast<double>(next) / static_cast<double>(n) - 0.25) < 0.04);
}

TEST_CASE("dropout: any part of a row can be asked for") {
  for_random_cases(20, [](Rng& rng) {
    const DropoutMask mask(0.4, &rng);
    constexpr Index count = 700;
    std::vector<float> all(count), part(count);
    mask.factors(3, 0, count, all.data());
    const Index begin = rng.below(count), length = rng.below(count - begin);
    mask.factors(3, begin, length, part.data());
    CHECK(std::equal(part.begin(), part.begin() + length, all.begin() + begin));
  });
}

TEST_CASE("dropout: gradients match finite differences") {
  for_random_cases(15, [](Rng& rng, Index size) {
    const DropoutMask mask(rng.uniform(), &rng);
    check_gradients([&](const auto& x) { return dropout(x, mask); },
                    [&](const auto& dy, const auto&) { return dropout_backward(dy, mask); },
                    normal<double>(random_shape<2>(rng, {.last = size}), rng));
  });
}

TEST_CASE("dropout: p outside of [0, 1] is named") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(DropoutMask(2, &rng), "dropout: p is 2; expected a probability in [0, 1]", ValueError);
  CHECK_THROWS_AS(DropoutMask(-0.1, &rng), ValueError);
  CHECK_THROWS_AS(DropoutMask(not_a_number, &rng), ValueError);
}
