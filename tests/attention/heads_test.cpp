// Mirrors include/attensor/attention/heads.hpp.

#include "attensor/attention/heads.hpp"

#include <doctest/doctest.h>

#include "attensor/attention/attention.hpp"
#include "attensor/core/layout.hpp"
#include "attention/random_attention.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("split_heads: head h of token s is the h-th slice of its features, in place") {
  auto x = Tensor<float, 3>(Shape{2, 3, 12});
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
  const auto heads = split_heads(x, 4);
  REQUIRE(heads.shape() == Shape{2, 4, 3, 3});
  bool same = true;
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 4; ++h) {
      for (Index s = 0; s < 3; ++s) {
        for (Index d = 0; d < 3; ++d) same = same && &heads(b, h, s, d) == &x(b, s, h * 3 + d);
      }
    }
  }
  CHECK(same);
  heads(1, 2, 0, 1) = -1;
  CHECK(x(1, 0, 7) == -1);
}

TEST_CASE("split_heads: a slice of a merged projection splits in place too") {
  Rng rng(1);
  const auto qkv = normal<float>({2, 5, 36}, rng);
  const auto keys = split_heads(slice(qkv, 2, 12, 24), 3);
  CHECK(keys.shape() == Shape{2, 3, 5, 4});
  CHECK(&keys(1, 2, 4, 3) == &qkv(1, 4, 12 + 11));
}

TEST_CASE("merge_heads: undoes split_heads, from a view and from a copy") {
  for_random_cases(20, [](Rng& rng) {
    const Index heads = random_between(rng, 1, 5), width = random_between(rng, 0, 5);
    const auto x = normal<float>({random_between(rng, 0, 3), random_between(rng, 0, 5), heads * width}, rng);
    CHECK(bitwise_equal(merge_heads(split_heads(x, heads)), x));
    CHECK(bitwise_equal(merge_heads(contiguous(split_heads(x, heads))), x));
  });
}

TEST_CASE("split_heads: a width that heads do not divide is named") {
  const auto x = zeros<float>({2, 3, 10});
  CHECK_THROWS_WITH_AS(split_heads(x, 4), "split_heads: x [2,3,10] has 10 in dim 2; expected a multiple of num_heads 4",
                       ShapeError);
  CHECK_THROWS_WITH_AS(split_heads(x, 0), "split_heads: x [2,3,10] has 10 in dim 2; expected a multiple of num_heads 0",
                       ShapeError);
}

TEST_CASE_TEMPLATE("heads: views of a merged projection give the bits of contiguous heads, forward and backward", T,
                   float, double) {
  for_random_cases(60, [](Rng& rng) {
    const auto c = random_attention(rng, {.longest = 33, .widest = 40});
    INFO(text_of(c));
    const auto options = options_for<T>(c.options);
    // Merged side by side with a gap behind, so that nothing is where a contiguous tensor would have it.
    const auto merged = [&](const auto& heads) {
      const auto m = merge_heads(to<T>(heads));
      auto wide = full<T>(Shape{m.extent(0), m.extent(1), m.extent(2) + 3}, static_cast<T>(not_a_number));
      for (Index b = 0; b < m.extent(0); ++b) {
        for (Index s = 0; s < m.extent(1); ++s) std::copy_n(m[b][s].data(), m.extent(2), wide[b][s].data() + 1);
      }
      return wide;
    };
    const auto grad_output =
        normal<double>({c.query.extent(0), c.query.extent(1), c.query.extent(2), c.value.extent(3)}, rng);
    const auto query = merged(c.query), key = merged(c.key), value = merged(c.value), grad = merged(grad_output);
    const auto view = [](const auto& wide, Index heads) {
      return split_heads(slice(wide, 2, 1, wide.extent(2) - 2), heads);
    };
    const auto q = view(query, c.query.extent(1)), k = view(key, c.key.extent(1)), v = view(value, c.key.extent(1)),
               dy = view(grad, c.query.extent(1));

    const auto result = scaled_dot_product_attention(q, k, v, options);
    const auto want = scaled_dot_product_attention(contiguous(q), contiguous(k), contiguous(v), options);
    CHECK(bitwise_equal(result.output, want.output));
    CHECK(bitwise_equal(result.logsumexp, want.logsumexp));
    CHECK(bitwise_equal(attention_weights(q, k, options), attention_weights(contiguous(q), contiguous(k), options)));
    const auto grads = scaled_dot_product_attention_backward(dy, q, k, v, result, options);
    const auto wanted = scaled_dot_product_attention_backward(contiguous(dy), contiguous(q), contiguous(k),
                                                              contiguous(v), want, options);
    CHECK(bitwise_equal(grads.query, wanted.query));
    CHECK(bitwise_equal(grads.key, wanted.key));
    CHECK(bitwise_equal(grads.value, wanted.value));
    CHECK(bitwise_equal(grads.bias, wanted.bias));
  });
}
