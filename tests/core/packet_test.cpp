// Mirrors include/attensor/core/packet.hpp.

#include "attensor/core/packet.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;
using detail::Packet;

namespace {

template <class T>
constexpr auto lanes = static_cast<std::size_t>(Packet<T>::lanes);

template <class T>
std::array<T, lanes<T>> numbers(Packet<T> packet) {
  std::array<T, lanes<T>> all;
  packet.store(all.data());
  return all;
}

template <class T>
std::array<T, lanes<T>> random_numbers(Rng& rng) {
  std::array<T, lanes<T>> all;
  for (T& x : all) x = static_cast<T>(rng.normal());
  return all;
}

template <class T>
bool same_bits(const std::array<T, lanes<T>>& a, const std::array<T, lanes<T>>& b) {
  return std::memcmp(a.data(), b.data(), sizeof a) == 0;
}

/// |got - want| in units of the last place of want, subnormals included.
template <class T, class Wide>
double ulps(T got, Wide want) {
  const T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : 1e9;
  const T above = std::nextafter(std::abs(rounded), std::numeric_limits<T>::infinity());
  const Wide unit = static_cast<Wide>(above) - static_cast<Wide>(std::abs(rounded));
  return static_cast<double>(std::abs(static_cast<Wide>(got) - want) / unit);
}

/// The worst error of exp over all arguments that `next` gives until it gives a NaN.
template <class T, class Wide, class Next>
double worst_exp(Next&& next) {
  double worst = 0;
  for (bool more = true; more;) {
    std::array<T, lanes<T>> x{};
    for (T& lane : x) {
      lane = next();
      if (std::isnan(lane)) {
        lane = 0;
        more = false;
      }
    }
    const auto y = numbers<T>(exp(Packet<T>::load(x.data())));
    for (std::size_t i = 0; i < lanes<T>; ++i) worst = std::max(worst, ulps(y[i], std::exp(static_cast<Wide>(x[i]))));
  }
  return worst;
}

}  // namespace

TEST_CASE_TEMPLATE("Packet: operators work on each lane", T, float, double) {
  for_random_cases(50, [](Rng& rng) {
    const auto a = random_numbers<T>(rng), b = random_numbers<T>(rng), c = random_numbers<T>(rng);
    const auto p = Packet<T>::load(a.data()), q = Packet<T>::load(b.data()), r = Packet<T>::load(c.data());
    std::array<T, lanes<T>> added, difference, product, quotient, negative, root, larger, smaller, chosen, squares;
    for (std::size_t i = 0; i < lanes<T>; ++i) {
      added[i] = a[i] + b[i];
      difference[i] = a[i] - b[i];
      product[i] = a[i] * b[i];
      quotient[i] = a[i] / b[i];
      negative[i] = -a[i];
      squares[i] = a[i] * a[i];
      root[i] = std::sqrt(squares[i]);
      larger[i] = std::max(a[i], b[i]);
      smaller[i] = std::min(a[i], b[i]);
      chosen[i] = a[i] < b[i] ? c[i] : a[i];
    }
    CHECK(same_bits<T>(numbers<T>(p + q), added));
    CHECK(same_bits<T>(numbers<T>(p - q), difference));
    CHECK(same_bits<T>(numbers<T>(p * q), product));
    CHECK(same_bits<T>(numbers<T>(p / q), quotient));
    CHECK(same_bits<T>(numbers<T>(-p), negative));
    CHECK(same_bits<T>(numbers<T>(sqrt(Packet<T>::load(squares.data()))), root));
    CHECK(same_bits<T>(numbers<T>(max(p, q)), larger));
    CHECK(same_bits<T>(numbers<T>(min(p, q)), smaller));
    CHECK(same_bits<T>(numbers<T>(select(p < q, r, p)), chosen));
    CHECK(same_bits<T>(numbers<T>(select(p == p, r, p)), c));
    const auto fused = numbers<T>(fma(p, q, r));
    for (std::size_t i = 0; i < lanes<T>; ++i)
      CHECK_NEAR(fused[i], std::fma(a[i], b[i], c[i]), 4 * std::numeric_limits<T>::epsilon());
    CHECK(largest(p) == *std::max_element(a.begin(), a.end()));
    double total = 0;
    for (const T x : a) total += static_cast<double>(x);
    CHECK_NEAR(sum(p), total, 1e-5);
  });
}

TEST_CASE_TEMPLATE("Packet: the root is correctly rounded, of subnormal and of large numbers too", T, float, double) {
  Rng rng(test_seed());
  constexpr int lowest = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  for (int i = 0; i < 20000; ++i) {
    const int exponent = static_cast<int>(random_between(rng, lowest, std::numeric_limits<T>::max_exponent - 1));
    const T x = std::ldexp(static_cast<T>(1 + rng.uniform() / 2), exponent);
    REQUIRE(numbers<T>(sqrt(Packet<T>(x)))[0] == std::sqrt(x));
  }
  CHECK(bitwise_equal(numbers<T>(sqrt(Packet<T>(T(0))))[0], T(0)));
  CHECK(numbers<T>(sqrt(Packet<T>(static_cast<T>(infinity))))[0] == static_cast<T>(infinity));
}

TEST_CASE_TEMPLATE("Packet: one number fills all lanes", T, float, double) {
  for (const T x : numbers<T>(Packet<T>(T(-2.5)))) CHECK(x == T(-2.5));
}

TEST_CASE_TEMPLATE("Packet: a running maximum passes over NaN, a bound keeps it", T, float, double) {
  const Packet<T> nan(static_cast<T>(not_a_number)), one(T(1));
  CHECK(numbers<T>(max(one, nan))[0] == 1);
  CHECK(numbers<T>(min(one, nan))[0] == 1);
  CHECK(std::isnan(numbers<T>(max(nan, one))[0]));
  CHECK(std::isnan(numbers<T>(min(nan, one))[0]));
  CHECK(numbers<T>(select(nan < one, one, -one))[0] == -1);
  CHECK(numbers<T>(select(one < nan, one, -one))[0] == -1);
  CHECK(numbers<T>(select(nan == nan, one, -one))[0] == -1);
}

TEST_CASE_TEMPLATE("Packet: partial loads and stores touch the first lanes alone", T, float, double) {
  for_random_cases(20, [](Rng& rng) {
    const auto a = random_numbers<T>(rng);
    for (std::size_t count = 0; count <= lanes<T>; ++count) {
      // Exactly as long as what may be read, so that a sanitizer sees any step beyond.
      const std::vector<T> source(a.begin(), a.begin() + static_cast<Index>(count));
      const auto loaded = Packet<T>::load_partial(source.data(), static_cast<Index>(count));
      std::array<T, lanes<T>> want{};
      std::copy(source.begin(), source.end(), want.begin());
      if (lanes<T> > 1) CHECK(same_bits<T>(numbers<T>(loaded), want));

      std::vector<T> target(count, T(9));
      if (lanes<T> > 1 || count == 1) Packet<T>::load(a.data()).store_partial(target.data(), static_cast<Index>(count));
      CHECK((target == source || (lanes<T> == 1 && count == 0)));

      std::fill(want.begin() + static_cast<Index>(count), want.end(), T(-7));
      if (lanes<T> > 1) CHECK(same_bits<T>(numbers<T>(loaded.first_lanes(static_cast<Index>(count), T(-7))), want));
    }
  });
}

TEST_CASE_TEMPLATE("exp: zero, infinity and NaN where they belong", T, float, double) {
  const auto exp_of = [](double x) { return numbers<T>(exp(Packet<T>(static_cast<T>(x))))[0]; };
  CHECK(bitwise_equal(exp_of(-infinity), T(0)));
  CHECK(exp_of(infinity) == static_cast<T>(infinity));
  CHECK(std::isnan(exp_of(not_a_number)));
  CHECK(exp_of(0) == 1);
  CHECK(exp_of(-0.0) == 1);
  CHECK(bitwise_equal(exp_of(static_cast<double>(std::numeric_limits<T>::lowest())), T(0)));
  CHECK(exp_of(static_cast<double>(std::numeric_limits<T>::max())) == static_cast<T>(infinity));
  CHECK(bitwise_equal(exp_of(-1e4), T(0)));
  CHECK(exp_of(static_cast<double>(std::numeric_limits<T>::denorm_min())) == 1);
  const double largest_argument = std::log(static_cast<double>(std::numeric_limits<T>::max()));
  CHECK(std::isfinite(exp_of(largest_argument - 1e-4)));
  CHECK(std::isinf(exp_of(largest_argument + 1e-3)));
  const double smallest_argument = std::log(static_cast<double>(std::numeric_limits<T>::denorm_min()));
  CHECK(exp_of(smallest_argument + 1e-3) == std::numeric_limits<T>::denorm_min());
  CHECK(bitwise_equal(exp_of(smallest_argument - 0.7), T(0)));
}

TEST_CASE("exp: within 2 ulp over all floats that do not overflow, subnormal results included") {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  constexpr std::uint32_t step = 701;
  // Bit patterns of one sign are in the order of the numbers.
  for (const auto& [sign, last] : {std::pair{0u, 88.7f}, std::pair{0x80000000u, 104.5f}}) {
    auto bits = static_cast<std::uint32_t>(rng.below(step));
    const double worst = worst_exp<float, double>([&] {
      const float magnitude = std::bit_cast<float>(bits);
      bits += step;
      return magnitude > last ? std::numeric_limits<float>::quiet_NaN()
                              : std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    });
    INFO("worst error of exp in float, sign " << (sign != 0) << ": " << worst << " ulp");
    CHECK(worst < 2);
  }
}

TEST_CASE("exp: within 2 ulp over doubles that do not overflow, subnormal results included") {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  for (const auto& [low, high] : {std::pair{-746.0, 709.78}, std::pair{-1.0, 1.0}, std::pair{-745.2, -708.0}}) {
    int left = 300000;
    const double worst = worst_exp<double, long double>(
        [&] { return --left < 0 ? not_a_number : std::fma(rng.uniform(), high - low, low); });
    INFO("worst error of exp in double on [" << low << ", " << high << "]: " << worst << " ulp");
    CHECK(worst < 2);
  }
}

TEST_CASE_TEMPLATE("exp: is not decreasing", T, float, double) {
  Rng rng(test_seed());
  for (int i = 0; i < 20000; ++i) {
    T x = static_cast<T>(random_between(rng, -100, 80)) + static_cast<T>(rng.uniform());
    std::array<T, lanes<T>> run{};
    for (T& lane : run) lane = x = std::nextafter(x, T(1000));
    const auto y = numbers<T>(exp(Packet<T>::load(run.data())));
    for (std::size_t j = 1; j < lanes<T>; ++j) REQUIRE(y[j] >= y[j - 1] * (1 - 2 * std::numeric_limits<T>::epsilon()));
  }
}

TEST_CASE("Packet: complex numbers are a single lane, ordered by their real part, never conjugated") {
  using C = std::complex<double>;
  using P = Packet<C>;
  static_assert(P::lanes == 1);
  const P a(C(1, 2)), b(C(3, -1));
  CHECK((a * b).value == C(5, 5));
  CHECK(max(a, b).value == C(3, -1));
  CHECK(fma(a, b, P(C(1, 1))).value == C(6, 6));
  CHECK(exp(P(C(-infinity, 0))).value == C(0, 0));
  CHECK(exp(P(C(-infinity, 1))).value == C(0, 0));
  CHECK(std::abs(exp(a).value - std::exp(C(1, 2))) < 1e-14);
}
