// Mirrors include/attensor/attention/mask.hpp.

#include "attensor/attention/mask.hpp"

#include <doctest/doctest.h>

#include "attensor/attention/attention.hpp"
#include "attention/random_attention.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("padding_mask: true where an id is none of the padding, [B, 1, 1, S]") {
  const Tensor<std::int64_t, 2> ids = {{5, 0, 7}, {0, 0, 1}};
  CHECK(bitwise_equal(padding_mask(ids), Tensor<bool, 4>{{{{true, false, true}}}, {{{false, false, true}}}}));
  CHECK(bitwise_equal(padding_mask(ids, 7), Tensor<bool, 4>{{{{true, true, false}}}, {{{true, true, true}}}}));
  CHECK(padding_mask(Tensor<std::int64_t, 2>(Shape{0, 3})).shape() == Shape{0, 1, 1, 3});
}

TEST_CASE("causal_mask: true where the key is not later than the query, [1, 1, n, n]") {
  const auto mask = causal_mask(7);
  REQUIRE(mask.shape() == Shape{1, 1, 7, 7});
  for (Index i = 0; i < 7; ++i) {
    for (Index j = 0; j < 7; ++j) CHECK(mask(0, 0, i, j) == (j <= i));
  }
  CHECK(causal_mask(0).size() == 0);
}

TEST_CASE("mask & mask: both hold, broadcast against each other in any dimension") {
  for_random_cases(40, [](Rng& rng) {
    const Shape<4> whole{3, 2, 4, 5};
    const auto a = random_mask(random_broadcast(rng, whole), rng), b = random_mask(random_broadcast(rng, whole), rng);
    const auto both = a & b;
    const auto at = [](const Tensor<bool, 4>& x, const Shape<4>& place) {
      const auto p = [&](std::size_t d) { return x.extent(d) == 1 ? 0 : place[d]; };
      return x(p(0), p(1), p(2), p(3));
    };
    for (std::size_t d = 0; d < 4; ++d) REQUIRE(both.extent(d) == std::max(a.extent(d), b.extent(d)));
    bool same = true;
    for (Index i = 0; i < 3; ++i) {
      for (Index j = 0; j < 2; ++j) {
        for (Index k = 0; k < 4; ++k) {
          for (Index l = 0; l < 5; ++l) {
            const Shape<4> place{i, j, k, l};
            same = same && at(both, place) == (at(a, place) && at(b, place));
          }
        }
      }
    }
    CHECK(same);
  });
}

TEST_CASE("mask & mask: extents that neither agree nor are 1 are named") {
  CHECK_THROWS_WITH_AS((full<bool>({2, 1, 1, 5}, true) & full<bool>({1, 1, 5, 4}, true)),
                       "operator&: mask [2,1,1,5] has 5 in dim 3; expected 4 or 1, to broadcast with mask [1,1,5,4]",
                       ShapeError);
}

TEST_CASE("mask: causal_mask and the causal option are the same to the bit, alone and joined with padding") {
  for_random_cases(20, [](Rng& rng, Index length) {
    Tensor<std::int64_t, 2> ids(Shape{2, length});
    for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = rng.below(4);
    const auto x = normal<float>({2, 3, length, 8}, rng);
    const auto same = [&](const AttentionOptions<float>& a, const AttentionOptions<float>& b) {
      const auto result_a = scaled_dot_product_attention(x, x, x, a),
                 result_b = scaled_dot_product_attention(x, x, x, b);
      CHECK(bitwise_equal(result_a.output, result_b.output));
      CHECK(bitwise_equal(result_a.logsumexp, result_b.logsumexp));
    };
    same({.mask = causal_mask(length)}, {.causal = Causal::top_left});
    same({.mask = padding_mask(ids) & causal_mask(length)}, {.causal = Causal::top_left, .mask = padding_mask(ids)});
  });
}

TEST_CASE_TEMPLATE("mask: a boolean mask is a bias of 0 and -infinity to the bit, forward and backward", T, float,
                   double) {
  for_random_cases(60, [](Rng& rng) {
    auto c = random_attention(rng, {.longest = 40, .widest = 17});
    const Shape<4> scores{c.query.extent(0), c.query.extent(1), c.query.extent(2), c.key.extent(2)};
    const auto mask = random_mask(random_broadcast(rng, scores), rng, 0.6);
    c.options.mask = mask;
    c.options.bias = {};
    INFO(text_of(c));
    auto masked = options_for<T>(c.options), biased = masked;
    auto bias = zeros<T>(mask.shape());
    for (Index i = 0; i < mask.size(); ++i) bias.data()[i] = mask.data()[i] ? T(0) : static_cast<T>(-infinity);
    biased.mask = {};
    biased.bias = bias;
    const auto q = to<T>(c.query), k = to<T>(c.key), v = to<T>(c.value);
    const auto dy = normal<T>({scores[0], scores[1], scores[2], v.extent(3)}, rng);
    const auto a = scaled_dot_product_attention(q, k, v, masked), b = scaled_dot_product_attention(q, k, v, biased);
    CHECK(bitwise_equal(a.output, b.output));
    CHECK(bitwise_equal(a.logsumexp, b.logsumexp));
    const auto grads_a = scaled_dot_product_attention_backward(dy, q, k, v, a, masked),
               grads_b = scaled_dot_product_attention_backward(dy, q, k, v, b, biased);
    CHECK(bitwise_equal(grads_a.query, grads_b.query));
    CHECK(bitwise_equal(grads_a.key, grads_b.key));
    CHECK(bitwise_equal(grads_a.value, grads_b.value));
    CHECK(all_finite(grads_b.bias));
    for (Index i = 0; i < bias.size(); ++i) {
      if (!mask.data()[i]) CHECK(grads_b.bias.data()[i] == 0);
    }
  });
}
