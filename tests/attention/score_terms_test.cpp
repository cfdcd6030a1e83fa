// Mirrors include/attensor/attention/score_terms.hpp.

#include "attensor/attention/score_terms.hpp"

#include <doctest/doctest.h>

#include "attensor/attention/attention.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE("relative_bucket: T5's buckets for both directions, 32 up to a distance of 128") {
  // As in the reference implementation of T5: exact up to 7, then by the logarithm, keys behind the query from 16 on.
  const auto bucket = [](Index p) { return detail::relative_bucket(p, 32, true, 128); };
  const std::vector<std::pair<Index, Index>> wanted = {
      {0, 0},     {-1, 1},    {-7, 7},     {-8, 8},   {-11, 8},  {-12, 9},  {-15, 9},
      {-16, 10},  {-23, 11},  {-46, 13},   {-63, 13}, {-64, 14}, {-90, 14}, {-91, 15},
      {-127, 15}, {-128, 15}, {-1000, 15}, {1, 17},   {7, 23},   {8, 24},   {1000, 31}};
  for (const auto& [p, want] : wanted) {
    INFO("position ", p);
    CHECK(bucket(p) == want);
  }
}

TEST_CASE("relative_bucket: in one direction all keys behind the query share the bucket of distance 0") {
  const auto bucket = [](Index p) { return detail::relative_bucket(p, 32, false, 128); };
  CHECK(bucket(0) == 0);
  CHECK(bucket(5) == 0);
  CHECK(bucket(-15) == 15);
  CHECK(bucket(-16) == 16);
  CHECK(bucket(-127) == 31);
  CHECK(bucket(-100000) == 31);
}

TEST_CASE("relative_bucket: stays within the table and grows with the distance, for any table") {
  for_random_cases(30, [](Rng& rng) {
    const bool both = rng.below(2) == 0;
    const Index buckets = random_between(rng, both ? 4 : 2, 40), sides = both ? 2 : 1, exact = buckets / sides / 2;
    const Index far = exact + random_between(rng, 1, 200);
    Index last = 0;
    bool good = true;
    for (Index distance = 0; distance < 500; ++distance) {
      const Index own = detail::relative_bucket(-distance, buckets, both, far),
                  other = detail::relative_bucket(distance, buckets, both, far);
      good = good && own >= last && own < buckets / sides && other >= 0 && other < buckets;
      last = own;
    }
    CHECK(good);
    CHECK(last == buckets / sides - 1);
  });
}

TEST_CASE("score terms: a window counts both ends, and a large one is no window") {
  const auto x = zeros<float>({1, 1, 6, 1});
  const auto count = [&](const AttentionOptions<float>& options) {
    const auto weights = attention_weights(x, x, options);
    std::vector<Index> counts;
    for (Index i = 0; i < 6; ++i) {
      counts.push_back(0);
      for (Index j = 0; j < 6; ++j) counts.back() += weights(0, 0, i, j) > 0;
    }
    return counts;
  };
  using Counts = std::vector<Index>;
  CHECK(count({.window_left = 2, .window_right = 0}) == Counts{1, 2, 3, 3, 3, 3});
  CHECK(count({.window_left = 1, .window_right = 1}) == Counts{2, 3, 3, 3, 3, 2});
  CHECK(count({.window_left = 5, .window_right = 0}) == count({.causal = Causal::top_left}));
  constexpr Index most = std::numeric_limits<Index>::max();
  CHECK(count({.window_left = most, .window_right = most}) == Counts(6, 6));
  CHECK(count({.causal = Causal::bottom_right, .window_left = most, .window_right = most}) ==
        count({.causal = Causal::top_left}));
}

TEST_CASE("score terms: ALiBi takes slope times distance from each score") {
  const auto x = zeros<double>({1, 2, 3, 1});
  const auto weights = attention_weights(x, x, {.alibi_slopes = {0.5, 2}});
  for (Index h = 0; h < 2; ++h) {
    const double slope = h == 0 ? 0.5 : 2;
    CHECK_NEAR(std::log(weights(0, h, 2, 2) / weights(0, h, 2, 0)), 2 * slope, 1e-12);
    CHECK_NEAR(std::log(weights(0, h, 0, 0) / weights(0, h, 0, 1)), slope, 1e-12);
  }
}

TEST_CASE("score terms: a softcap of c keeps scores within c, and a large one changes little") {
  Rng rng(1);
  const auto q = normal<double>({1, 1, 5, 4}, rng, {.stddev = 100}),
             k = normal<double>({1, 1, 6, 4}, rng, {.stddev = 100});
  const auto weights = attention_weights(q, k, {.softcap = 2});
  for (Index i = 0; i < weights.size(); ++i) CHECK(weights.data()[i] >= std::exp(-4.0) / 6);
  CHECK_NEAR(attention_weights(q, k, {.scale = 1e-4, .softcap = 1e6}), attention_weights(q, k, {.scale = 1e-4}), 1e-9);
}

TEST_CASE("score terms: a sink takes its share of every row, and a sink of -infinity takes nothing") {
  Rng rng(1);
  const auto x = normal<double>({1, 2, 5, 4}, rng);
  const auto plain = scaled_dot_product_attention(x, x, x);
  const auto with_sink = scaled_dot_product_attention(x, x, x, {.sinks = {0.5, -infinity}});
  for (Index i = 0; i < 5; ++i) {
    const double own = plain.logsumexp(0, 0, i), joined = std::log(std::exp(own) + std::exp(0.5));
    CHECK_NEAR(with_sink.logsumexp(0, 0, i), joined, 1e-14);
    for (Index d = 0; d < 4; ++d) {
      CHECK_NEAR(with_sink.output(0, 0, i, d), plain.output(0, 0, i, d) * std::exp(own - joined), 1e-14);
    }
  }
  CHECK_NEAR(with_sink.output[0][1], plain.output[0][1], 1e-15);
  const auto grads = scaled_dot_product_attention_backward(x, x, x, x, with_sink, {.sinks = {0.5, -infinity}});
  CHECK(grads.sinks(1) == 0);
}

TEST_CASE("score terms: a row that sees nothing gives no NaN, whatever the sink and wherever -infinity comes from") {
  const auto x = ones<double>({1, 2, 3, 4});
  const auto nothing = full<double>({1, 1, 3, 3}, -infinity);
  for (const double sink : {0.5, -infinity}) {
    const AttentionOptions<double> options{.bias = nothing, .sinks = {sink, sink}};
    const auto result = scaled_dot_product_attention(x, x, x, options);
    CHECK(bitwise_equal(result.output, zeros<double>({1, 2, 3, 4})));
    CHECK(result.logsumexp(0, 1, 2) == sink);
    const auto grad_logsumexp = ones<double>({1, 2, 3});
    const auto grads = scaled_dot_product_attention_backward(x, x, x, x, result, options, &grad_logsumexp);
    CHECK(bitwise_equal(grads.value, zeros<double>({1, 2, 3, 4})));
    CHECK(all_finite(grads.query));
    CHECK(all_finite(grads.key));
    CHECK(all_finite(grads.bias));
    CHECK(all_finite(grads.sinks));
  }
}
