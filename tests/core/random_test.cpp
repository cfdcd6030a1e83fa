// Mirrors include/attensor/core/random.hpp.

#include "attensor/core/random.hpp"

#include <doctest/doctest.h>

#include <vector>

#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#define ATTENSOR_TEST_HAS_RANDOM123
#endif

#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

using Block = std::array<std::uint32_t, 4>;

TEST_CASE("philox: the published vectors") {
  CHECK(detail::philox({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(detail::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(detail::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

#ifdef ATTENSOR_TEST_HAS_RANDOM123
TEST_CASE("philox: the same as Random123 for any counter and key") {
  Rng rng(test_seed());
  for (int i = 0; i < 10000; ++i) {
    const Block counter = {rng.next(), rng.next(), rng.next(), rng.next()};
    const std::array<std::uint32_t, 2> key = {rng.next(), rng.next()};
    const philox4x32_ctr_t theirs = philox4x32_R(10, philox4x32_ctr_t{{counter[0], counter[1], counter[2], counter[3]}},
                                                 philox4x32_key_t{{key[0], key[1]}});
    REQUIRE(detail::philox(counter, key) == Block{theirs.v[0], theirs.v[1], theirs.v[2], theirs.v[3]});
  }
}
#endif

TEST_CASE("Rng: the stream of a seed is fixed for ever") {
  Rng rng(0);
  CHECK(rng.next() == 0x6627e8d5);  // block 0 of key 0
  CHECK(rng.next() == 0xe169c58d);
  CHECK(rng.next64() == 0x9b00dbd8bc57ac4c);
  Rng other(0x0123456789abcdef);
  CHECK(other.key() == std::array<std::uint32_t, 2>{0x89abcdef, 0x01234567});
  const Block second = detail::philox({1, 0, 0, 0}, other.key());
  for (int i = 0; i < 4; ++i) (void)other.next();
  CHECK(other.next() == second[0]);
  CHECK(Rng(1).next() != Rng(2).next());
}

TEST_CASE("Rng: uniform and normal numbers of a seed are fixed for ever, to the bit") {
  Rng rng(42);
  std::uint64_t uniforms = 0, normals = 0;
  for (int i = 0; i < 1000; ++i) uniforms = uniforms * 31 + std::bit_cast<std::uint64_t>(rng.uniform());
  for (int i = 0; i < 1000; ++i) normals = normals * 31 + std::bit_cast<std::uint64_t>(rng.normal());
  CHECK(uniforms == 0x1916b22ac7e7cbe3);
  CHECK(normals == 0x65a2a7042f51e362);
}

TEST_CASE("Rng: a copy goes on with the same stream, and so does a stored state") {
  for_random_cases(20, [](Rng& rng) {
    for (Index i = rng.below(10); i > 0; --i) (void)rng.next();
    (void)rng.next_mask();
    Rng copy = rng;
    Rng restored(rng.state());
    CHECK(restored.state() == rng.state());
    for (int i = 0; i < 20; ++i) {
      const std::uint32_t word = rng.next();
      CHECK(copy.next() == word);
      CHECK(restored.next() == word);
    }
    CHECK(restored.next_mask() == rng.next_mask());
    CHECK(restored.state() == rng.state());
  });
}

TEST_CASE("Rng: masks have numbers of their own and take nothing from the stream") {
  Rng rng(1), other(1);
  CHECK(rng.next_mask() != rng.next_mask());
  CHECK(rng.next() == other.next());
}

TEST_CASE("uniform: lies in [0, 1) and has the moments of what it is") {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  double sum = 0, squares = 0;
  for (int i = 0; i < 400000; ++i) {
    const double u = rng.uniform();
    REQUIRE((u >= 0 && u < 1));
    sum += u;
    squares += u * u;
  }
  CHECK(std::abs(sum / 400000 - 0.5) < 5 * 0.29 / 632);  // five standard errors
  CHECK(std::abs(squares / 400000 - 1.0 / 3) < 5 * 0.3 / 632);
}

TEST_CASE("below: each value is as likely as the next, also for bounds that do not divide 2^64") {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  for (const Index bound : {1, 2, 3, 7, 10}) {
    std::vector<int> counts(static_cast<std::size_t>(bound));
    for (int i = 0; i < 70000; ++i) {
      const Index value = rng.below(bound);
      REQUIRE((value >= 0 && value < bound));
      ++counts[static_cast<std::size_t>(value)];
    }
    const double expected = 70000.0 / static_cast<double>(bound);
    for (const int count : counts) CHECK(std::abs(count - expected) <= 6 * std::sqrt(expected));
  }
  const Index large = std::numeric_limits<Index>::max();
  for (int i = 0; i < 1000; ++i) CHECK(rng.below(large) < large);
  CHECK_THROWS_WITH_AS(rng.below(0), "Rng::below: bound is 0; expected 1 or more", ValueError);
  CHECK_THROWS_AS(rng.below(-3), ValueError);
}

TEST_CASE("normal: is finite and has the distribution of what it is") {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  constexpr int count = 400000;
  std::array<double, 5> moments{};
  int within_one = 0, beyond_three = 0;
  for (int i = 0; i < count; ++i) {
    const double x = rng.normal();
    REQUIRE(std::isfinite(x));
    for (std::size_t k = 1; k < 5; ++k) moments[k] += std::pow(x, static_cast<double>(k)) / count;
    within_one += std::abs(x) < 1;
    beyond_three += std::abs(x) > 3;
  }
  CHECK(std::abs(moments[1]) < 0.008);  // about five standard errors each
  CHECK(std::abs(moments[2] - 1) < 0.0115);
  CHECK(std::abs(moments[3]) < 0.031);
  CHECK(std::abs(moments[4] - 3) < 0.08);
  CHECK(std::abs(within_one / double{count} - 0.682689) < 0.0037);
  CHECK(std::abs(beyond_three / double{count} - 0.0026998) < 0.00041);
}

TEST_CASE("portable_log: within 4 ulp of the logarithm on (0, 1]") {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  const auto check = [](double x) {
    const double want = std::log(x), got = detail::portable_log(x);
    const double ulp = std::abs(std::nextafter(want, -infinity) - want);
    return std::abs(got - want) <= std::max(4 * ulp, 1e-300);
  };
  CHECK(detail::portable_log(1) == 0);
  CHECK(check(0x1p-53));
  CHECK(check(std::nextafter(1.0, 0.0)));
  CHECK(check(0.5));
  CHECK(check(std::sqrt(0.5)));
  int wrong = 0;
  for (int i = 0; i < 200000; ++i) wrong += !check(1 - rng.uniform()) + !check((1 - rng.uniform()) * 0x1p-40);
  CHECK(wrong == 0);
}

TEST_CASE("portable_cos_sin_turn: within 1e-15 of cosine and sine, quarters exact") {
  CHECK(detail::portable_cos_sin_turn(0) == std::array<double, 2>{1, 0});
  CHECK(detail::portable_cos_sin_turn(0.25) == std::array<double, 2>{0, 1});
  CHECK(detail::portable_cos_sin_turn(0.5) == std::array<double, 2>{-1, 0});
  CHECK(detail::portable_cos_sin_turn(0.75) == std::array<double, 2>{0, -1});
  Rng rng(test_seed());
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double t = rng.uniform();
    const auto [cosine, sine] = detail::portable_cos_sin_turn(t);
    const long double angle = 2 * 3.14159265358979323846264338327950288L * static_cast<long double>(t);
    worst = std::max({worst, std::abs(cosine - static_cast<double>(std::cos(angle))),
                      std::abs(sine - static_cast<double>(std::sin(angle)))});
  }
  CHECK(worst < 1e-15);
}
