// Mirrors include/attensor/attention/options.hpp.

#include "attensor/attention/options.hpp"

#include <doctest/doctest.h>

#include "attensor/attention/attention.hpp"
#include "attensor/attention/mask.hpp"
#include "attensor/core/layout.hpp"
#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

TEST_CASE("options: made from a temporary a shared tensor takes the elements over, and copies share them") {
  auto mask = full<bool>({1, 1, 2, 3}, true);
  const bool* elements = mask.data();
  const Mask shared = std::move(mask);
  CHECK(shared->data() == elements);
  const Mask copy = shared;
  CHECK(copy->data() == elements);
}

TEST_CASE("options: made from a tensor or view that stays, it has elements of its own") {
  Rng rng(1);
  auto bias = normal<float>({2, 1, 3, 8}, rng);
  const auto before = bias;
  const Bias<float> from_tensor = bias, from_view = slice(bias, 3, 2, 5);
  std::fill_n(bias.data(), bias.size(), 0.0f);
  CHECK(bitwise_equal(*from_tensor, before));
  CHECK(bitwise_equal(*from_view, slice(before, 3, 2, 5)));
}

TEST_CASE("options: none is none") {
  CHECK(!Mask());
  CHECK(!RelativeBias<float>());
  CHECK(!AttentionOptions<float>().mask);
  CHECK(Lengths{1, 2});
}

TEST_CASE("options: written with temporaries they live until the backward pass") {
  Rng rng(1);
  const auto x = normal<float>({2, 1, 4, 8}, rng);
  const auto options = [] {
    const Tensor<std::int64_t, 2> ids = {{1, 2, 0, 0}, {3, 4, 5, 0}};
    return AttentionOptions<float>{
        .mask = padding_mask(ids), .bias = zeros<float>({1, 1, 4, 4}), .key_lengths = {2, 3}};
  }();
  for (int i = 0; i < 20; ++i)
    (void)full<float>({2, 1, 4, 4}, 7.0f);  // blocks that were freed too early are written over
  const auto result = scaled_dot_product_attention(x, x, x, options);
  const auto grads = scaled_dot_product_attention_backward(x, x, x, x, result, options);
  CHECK(bitwise_equal(result.output, scaled_dot_product_attention(x, x, x, {.key_lengths = {2, 3}}).output));
  CHECK(all_finite(grads.query));
}
