// Mirrors include/attensor/core/row.hpp.

#include "attensor/core/row.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "attensor/core/creation.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;
using detail::for_row;
using detail::max_row;
using detail::Packet;
using detail::sum_row;

namespace {

/// Sum and maximum of exp(x), and what it stores: one kernel with everything that rows do.
template <class T>
struct Outcome {
  T total, largest;
  std::vector<T> y;

  bool operator==(const Outcome& other) const {
    return bitwise_equal(total, other.total) && bitwise_equal(largest, other.largest) &&
           std::memcmp(y.data(), other.y.data(), y.size() * sizeof(T)) == 0;
  }
};

template <class T>
Outcome<T> run(Index n, const T* x, T* y) {
  for_row<T>(n, [&](auto at) { at.store(y, exp(at.load(x)) * Packet<T>(T(1.5)) + at.load(x)); });
  return {sum_row<T>(n, [&](auto at) { return at.load(x) * at.load(y); }),
          max_row<T>(n, [&](auto at) { return at.load(y); }), std::vector<T>(y, y + n)};
}

}  // namespace

TEST_CASE_TEMPLATE("rows: sums, maxima and stores of all lengths are right, and nothing else is touched", T, float,
                   double) {
  Rng rng(test_seed());
  INFO("ATTENSOR_TEST_SEED=", test_seed());
  for (Index n = 0; n < 150; ++n) {
    CAPTURE(n);
    const auto x = normal<T>({n}, rng);
    std::vector<T> y(static_cast<std::size_t>(n) + 2, T(77));
    const auto outcome = run<T>(n, x.data(), y.data() + 1);
    CHECK(y.front() == 77);
    CHECK(y.back() == 77);
    double total = 0, largest = -infinity;
    for (Index i = 0; i < n; ++i) {
      const double want = std::exp(static_cast<double>(x(i))) * 1.5 + static_cast<double>(x(i));
      REQUIRE(is_near(static_cast<double>(outcome.y[static_cast<std::size_t>(i)]), want,
                      std::is_same_v<T, float> ? 1e-6 : 1e-15));
      total += static_cast<double>(x(i)) * want;
      largest = std::max(largest, static_cast<double>(outcome.y[static_cast<std::size_t>(i)]));
    }
    CHECK_NEAR(outcome.total, total, std::is_same_v<T, float> ? 1e-4 : 1e-13);
    CHECK(static_cast<double>(outcome.largest) == largest);
  }
}

TEST_CASE_TEMPLATE("rows: the same bits at any address", T, float, double) {
  for_random_cases(100, [](Rng& rng, Index n) {
    const auto x = normal<T>({n}, rng);
    Tensor<T, 1> in(Shape{n + 64}), out(Shape{n + 64});
    const auto first = [&] {
      std::copy_n(x.data(), n, in.data());
      return run<T>(n, in.data(), out.data());
    }();
    for (Index offset = 0; offset < 64; ++offset) {
      std::copy_n(x.data(), n, in.data() + offset);
      REQUIRE(run<T>(n, in.data() + offset, out.data() + 63 - offset) == first);
    }
  });
}

TEST_CASE_TEMPLATE("rows: what lies behind the end does not matter, not even NaN", T, float, double) {
  for_random_cases(50, [](Rng& rng, Index n) {
    const auto x = normal<T>({n}, rng);
    std::vector<T> y(static_cast<std::size_t>(n));
    const auto alone = run<T>(n, x.data(), y.data());
    auto longer = full<T>({n + 32}, static_cast<T>(not_a_number));
    std::copy_n(x.data(), n, longer.data());
    CHECK(run<T>(n, longer.data(), y.data()) == alone);
  });
}

TEST_CASE_TEMPLATE("rows: a NaN is passed over by the maximum and kept by the sum", T, float, double) {
  for (Index n = 1; n < 80; ++n) {
    for (Index place = 0; place < n; ++place) {
      auto x = full<T>({n}, T(-3));
      x(place) = static_cast<T>(not_a_number);
      const T largest = max_row<T>(n, [&](auto at) { return at.load(x.data()); });
      REQUIRE(largest == (n == 1 ? -static_cast<T>(infinity) : T(-3)));
      REQUIRE(std::isnan(sum_row<T>(n, [&](auto at) { return at.load(x.data()); })));
    }
  }
}

TEST_CASE("rows: an empty row has sum 0 and maximum -infinity") {
  CHECK(sum_row<float>(0, [](auto) { return Packet<float>(1.0f); }) == 0);
  CHECK(max_row<double>(0, [](auto) { return Packet<double>(1.0); }) == -infinity);
}

TEST_CASE("rows: complex numbers, one at a time") {
  using C = std::complex<double>;
  const Tensor<C, 1> x = {C(1, 2), C(-3, 4), C(5, -6)};
  CHECK(sum_row<C>(3, [&](auto at) { return at.load(x.data()); }) == C(3, 0));
  CHECK(max_row<C>(3, [&](auto at) { return at.load(x.data()); }) == C(5, -6));
}
