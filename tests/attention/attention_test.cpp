// Mirrors include/attensor/attention/attention.hpp: what attention computes.

#include "attensor/attention/attention.hpp"

#include <doctest/doctest.h>

#include "attention/naive_attention.hpp"
#include "attention/random_attention.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

/// How many random cases were compared with the definition.
int compared = 0;

/// The largest |score| of a case, which the rounding of scores grows with.
double score_scale(const AttentionCase& c) {
  double largest = 1;
  for (Index i = 0; i < c.query.size(); ++i) largest = std::max(largest, std::abs(c.query.data()[i]));
  return largest * (1 + std::abs(c.options.scale.value_or(1)));
}

template <Scalar T>
void compare_with_definition(AttentionCase& c, std::uint64_t seed, double tolerance) {
  INFO(text_of(c));
  ++compared;
  const auto query = to<T>(c.query), key = to<T>(c.key), value = to<T>(c.value);
  // What the definition gets is what the library gets: numbers rounded to T.
  auto rounded = options_for<double>(c.options);
  if (c.options.bias) rounded.bias = to<double>(to<T>(*c.options.bias));
  for (const Kernel kernel : all_kernels) {
    auto options = options_for<T>(c.options);
    Rng rng(seed);
    options.rng = &rng;
    options.kernel = kernel;
    const auto result = scaled_dot_product_attention(query, key, value, options);
    const auto want = naive_attention(to<double>(query), to<double>(key), to<double>(value), rounded, result.dropout);
    CHECK_NEAR(result.output, want.output, tolerance);
    CHECK_NEAR(result.logsumexp, want.logsumexp, tolerance);
    CHECK_NEAR(attention_weights(query, key, options), want.weights, tolerance);
  }
}

}  // namespace

TEST_CASE("attention: output, log-sum-exp and weights are those of the definition, in double") {
  for_random_cases(600, [](Rng& rng) {
    auto c = random_attention(rng);
    compare_with_definition<double>(c, rng.next64(), 1e-13 * score_scale(c) * score_scale(c));
  });
  CHECK(compared >= 500);
}

TEST_CASE("attention: output, log-sum-exp and weights are those of the definition, in float") {
  for_random_cases(200, [](Rng& rng) {
    auto c = random_attention(rng);
    compare_with_definition<float>(c, rng.next64(), 3e-6 * score_scale(c) * score_scale(c));
  });
}

TEST_CASE("attention: the definition holds for long sequences, over more than one block of depth") {
  for_random_cases(6, [](Rng& rng) {
    auto c = random_attention(rng, {.longest = 8, .widest = 17, .batch = 1, .may_be_empty = false});
    const Index queries = random_between(rng, 1, 40), keys = random_between(rng, 321, 700);
    c.query = normal<double>({1, 2, queries, c.query.extent(3)}, rng);
    c.key = normal<double>({1, 1, keys, c.query.extent(3)}, rng);
    c.value = normal<double>({1, 1, keys, 5}, rng);
    c.options = {.causal = Causal::bottom_right, .key_lengths = Tensor<Index, 1>{keys - rng.below(3)}};
    if (rng.below(2) == 0) c.options.mask = random_mask(Shape<4>{1, 1, 1, keys}, rng);
    compare_with_definition<double>(c, 1, 1e-12);
  });
}

TEST_CASE("attention: the definition holds for the head dims that models have") {
  for_random_cases(3, [](Rng& rng) {
    for (const Index width : {1, 3, 40, 64, 80, 96, 128, 257}) {
      AttentionCase c{normal<double>({1, 2, 7, width}, rng),
                      normal<double>({1, 2, 9, width}, rng),
                      normal<double>({1, 2, 9, width}, rng),
                      {}};
      compare_with_definition<double>(c, 1, 1e-12);
    }
  });
}

TEST_CASE("attention: the default scale is 1 / sqrt of the head dimension") {
  Rng rng(1);
  const auto query = normal<double>({1, 2, 3, 16}, rng), key = normal<double>({1, 2, 5, 16}, rng),
             value = normal<double>({1, 2, 5, 4}, rng);
  CHECK(bitwise_equal(scaled_dot_product_attention(query, key, value).output,
                      scaled_dot_product_attention(query, key, value, {.scale = 0.25}).output));
}

TEST_CASE_TEMPLATE("attention: scores of +-1e4 give neither NaN nor infinity", T, float, double) {
  auto query = full<T>({1, 1, 2, 1}, T(100)), key = full<T>({1, 1, 3, 1}, T(100));
  query(0, 0, 1, 0) = -100;
  key(0, 0, 2, 0) = -100;
  const Tensor<T, 4> value = {{{{1}, {3}, {10}}}};
  const auto result = scaled_dot_product_attention(query, key, value);
  CHECK_NEAR(result.output, (Tensor<T, 4>{{{{2}, {10}}}}), 1e-6);
  CHECK_NEAR(result.logsumexp, (Tensor<T, 3>{{{T(1e4) + std::log(T(2)), T(1e4)}}}), 1e-6);
}

TEST_CASE("attention: grouped-query heads equal key heads that are repeated") {
  for_random_cases(10, [](Rng& rng) {
    const Index key_heads = random_between(rng, 1, 3), group = random_between(rng, 2, 4), keys = awkward_size(rng);
    const auto query = normal<float>({2, key_heads * group, 5, 8}, rng);
    const auto key = normal<float>({2, key_heads, keys, 8}, rng), value = normal<float>({2, key_heads, keys, 3}, rng);
    const auto repeated = [&](const Tensor<float, 4>& x) {
      Tensor<float, 4> y(Shape{2, key_heads * group, keys, x.extent(3)});
      for (Index b = 0; b < 2; ++b) {
        for (Index h = 0; h < key_heads * group; ++h)
          std::copy_n(x[b][h / group].data(), keys * x.extent(3), y[b][h].data());
      }
      return y;
    };
    const auto grouped = scaled_dot_product_attention(query, key, value);
    const auto whole = scaled_dot_product_attention(query, repeated(key), repeated(value));
    CHECK(bitwise_equal(grouped.output, whole.output));
    CHECK(bitwise_equal(grouped.logsumexp, whole.logsumexp));
  });
}

TEST_CASE("attention: without a generator nothing is dropped") {
  for_random_cases(5, [](Rng& rng) {
    auto c = random_attention(rng);
    c.options.dropout = 0;
    const auto want = scaled_dot_product_attention(c.query, c.key, c.value, c.options);
    c.options.dropout = 0.5;
    const auto got = scaled_dot_product_attention(c.query, c.key, c.value, c.options);
    CHECK(bitwise_equal(got.output, want.output));
    CHECK(!got.dropout.active());
  });
}

TEST_CASE("attention: dropout changes neither log-sum-exp nor weights, and drops as many as it says") {
  Rng rng(3), mask_rng(4);
  const auto query = normal<double>({2, 3, 40, 8}, rng), key = normal<double>({2, 3, 50, 8}, rng);
  // With values of the identity the output is the weights after dropout.
  auto value = zeros<double>({2, 3, 50, 50});
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 3; ++h) {
      for (Index j = 0; j < 50; ++j) value(b, h, j, j) = 1;
    }
  }
  const AttentionOptions<double> options{.dropout = 0.25, .rng = &mask_rng};
  const auto dropped = scaled_dot_product_attention(query, key, value, options);
  const auto weights = attention_weights(query, key, options);
  CHECK(bitwise_equal(dropped.logsumexp, scaled_dot_product_attention(query, key, value).logsumexp));
  CHECK(bitwise_equal(weights, attention_weights(query, key)));
  Index zero = 0, wrong = 0;
  for (Index i = 0; i < weights.size(); ++i) {
    const double w = dropped.output.data()[i];
    zero += w == 0;
    wrong += w != 0 && !is_near(w, weights.data()[i] / 0.75, 1e-12);
  }
  CHECK(wrong == 0);
  CHECK(std::abs(static_cast<double>(zero) / static_cast<double>(weights.size()) - 0.25) < 0.02);
}

TEST_CASE("attention: each call draws a mask of its own, and the same generator draws the same ones") {
  Rng rng(1);
  const auto x = normal<float>({1, 2, 20, 8}, rng);
  Rng a(9), b(9);
  const auto first = scaled_dot_product_attention(x, x, x, {.dropout = 0.5, .rng = &a}).output;
  CHECK(bitwise_equal(scaled_dot_product_attention(x, x, x, {.dropout = 0.5, .rng = &b}).output, first));
  CHECK(!bitwise_equal(scaled_dot_product_attention(x, x, x, {.dropout = 0.5, .rng = &b}).output, first));
}

TEST_CASE("attention: causal counts positions from the valid lengths, and a mask does not move them") {
  // 2 queries, 5 keys: top-left lets the last query see 2 keys, bottom-right 5.
  const auto query = zeros<float>({1, 1, 2, 1}), key = zeros<float>({1, 1, 5, 1});
  const auto seen = [&](const AttentionOptions<float>& options) {
    const auto weights = attention_weights(query, key, options);
    std::vector<Index> counts(2);
    for (Index i = 0; i < 2; ++i) {
      for (Index j = 0; j < 5; ++j) counts[static_cast<std::size_t>(i)] += weights(0, 0, i, j) > 0;
    }
    return counts;
  };
  using Counts = std::vector<Index>;
  CHECK(seen({.causal = Causal::top_left}) == Counts{1, 2});
  CHECK(seen({.causal = Causal::bottom_right}) == Counts{4, 5});
  CHECK(seen({.causal = Causal::bottom_right, .key_lengths = {3}}) == Counts{2, 3});
  CHECK(seen({.causal = Causal::bottom_right, .query_lengths = {1}}) == Counts{5, 0});
  CHECK(seen({.causal = Causal::bottom_right, .mask = Tensor<bool, 4>{{{{true, true, true, false, false}}}}}) ==
        Counts{3, 3});
  CHECK(seen({.causal = Causal::bottom_right, .window_left = 2}) == Counts{3, 3});
  CHECK(seen({.window_left = 0, .window_right = 1}) == Counts{2, 2});
}

TEST_CASE("attention: extents of 0 give empty or zero results, forward and backward") {
  const auto run = [](const Shape<4>& query_shape, const Shape<4>& key_shape, Index value_width) {
    const auto query = ones<float>(query_shape), key = ones<float>(key_shape);
    auto value_shape = key_shape;
    value_shape[3] = value_width;
    const auto value = ones<float>(value_shape);
    const auto result = scaled_dot_product_attention(query, key, value);
    CHECK(result.output.shape() == Shape{query_shape[0], query_shape[1], query_shape[2], value_width});
    CHECK(all_finite(result.output));
    const auto grads = scaled_dot_product_attention_backward(result.output, query, key, value, result);
    CHECK(grads.query.shape() == query_shape);
    CHECK(grads.key.shape() == key_shape);
    CHECK(grads.value.shape() == value_shape);
    CHECK(all_finite(grads.query));
    CHECK(all_finite(grads.key));
    CHECK(all_finite(grads.value));
    CHECK(attention_weights(query, key).shape() == Shape{query_shape[0], query_shape[1], query_shape[2], key_shape[2]});
    return result;
  };
  run({0, 2, 3, 4}, {0, 2, 5, 4}, 4);
  run({2, 0, 3, 4}, {2, 0, 5, 4}, 4);
  run({2, 2, 0, 4}, {2, 2, 5, 4}, 4);
  run({2, 2, 3, 4}, {2, 2, 5, 4}, 0);
  const auto no_keys = run({2, 2, 3, 4}, {2, 2, 0, 4}, 4);
  CHECK(bitwise_equal(no_keys.output, zeros<float>({2, 2, 3, 4})));
  CHECK(bitwise_equal(no_keys.logsumexp, full<float>({2, 2, 3}, static_cast<float>(-infinity))));
  const auto no_width = run({2, 2, 3, 0}, {2, 2, 5, 0}, 4);  // all scores 0: the mean of the values
  CHECK_NEAR(no_width.output, ones<float>({2, 2, 3, 4}), 1e-6);
}
