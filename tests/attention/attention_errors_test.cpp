// Mirrors include/attensor/attention/attention.hpp: what does not fit is an error that names the function, the
// argument, its shape and the dimension.

#include <doctest/doctest.h>

#include "attensor/attention/attention.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

const Shape<4> query_shape = {2, 8, 10, 64}, key_shape = {2, 4, 12, 64}, value_shape = {2, 4, 12, 32};

/// The message of the forward pass; backward and weights say the same under their own names.
void check_message(const Shape<4>& query, const Shape<4>& key, const Shape<4>& value, const std::string& message) {
  CHECK_THROWS_WITH_AS((void)scaled_dot_product_attention(zeros<float>(query), zeros<float>(key), zeros<float>(value)),
                       ("scaled_dot_product_attention: " + message).c_str(), ShapeError);
  CHECK_THROWS_WITH_AS((void)scaled_dot_product_attention_backward(zeros<float>({1, 1, 1, 1}), zeros<float>(query),
                                                                   zeros<float>(key), zeros<float>(value), {}),
                       ("scaled_dot_product_attention_backward: " + message).c_str(), ShapeError);
}

template <class E>
void check_option_message(const AttentionOptions<float>& options, const std::string& message) {
  const auto query = zeros<float>(query_shape), key = zeros<float>(key_shape), value = zeros<float>(value_shape);
  CHECK_THROWS_WITH_AS((void)scaled_dot_product_attention(query, key, value, options),
                       ("scaled_dot_product_attention: " + message).c_str(), E);
  CHECK_THROWS_WITH_AS(
      (void)scaled_dot_product_attention_backward(zeros<float>({2, 8, 10, 32}), query, key, value, {}, options),
      ("scaled_dot_product_attention_backward: " + message).c_str(), E);
  CHECK_THROWS_WITH_AS((void)attention_weights(query, key, options), ("attention_weights: " + message).c_str(), E);
}

}  // namespace

TEST_CASE("attention errors: batches of query, key and value agree") {
  check_message(query_shape, {3, 4, 12, 64}, value_shape,
                "key [3,4,12,64] has 3 in dim 0; expected 2, the batch of query [2,8,10,64]");
  check_message(query_shape, key_shape, {1, 4, 12, 32},
                "value [1,4,12,32] has 1 in dim 0; expected 2, the batch of query [2,8,10,64]");
}

TEST_CASE("attention errors: key has the head dimension of query, value one of its own") {
  check_message(query_shape, {2, 4, 12, 32}, value_shape,
                "key [2,4,12,32] has 32 in dim 3; expected 64, the head dimension of query [2,8,10,64]");
}

TEST_CASE("attention errors: value has the heads and the length of key") {
  check_message(query_shape, key_shape, {2, 8, 12, 32},
                "value [2,8,12,32] has 8 in dim 1; expected 4, the heads of key [2,4,12,64]");
  check_message(query_shape, key_shape, {2, 4, 10, 32},
                "value [2,4,10,32] has 10 in dim 2; expected 12, the length of key [2,4,12,64]");
}

TEST_CASE("attention errors: query heads are a multiple of key heads") {
  check_message(query_shape, {2, 3, 12, 64}, {2, 3, 12, 32},
                "query [2,8,10,64] has 8 in dim 1; expected a multiple of 3, the heads of key [2,3,12,64]");
  check_message(query_shape, {2, 0, 12, 64}, {2, 0, 12, 32},
                "query [2,8,10,64] has 8 in dim 1; expected a multiple of 0, the heads of key [2,0,12,64]");
}

TEST_CASE("attention errors: a mask or bias broadcasts to the scores") {
  check_option_message<ShapeError>(
      {.mask = full<bool>({2, 1, 1, 10}, true)},
      "mask [2,1,1,10] has 10 in dim 3; expected 12, or 1, to broadcast to the scores [B,Hq,Lq,Lk] [2,8,10,12]");
  check_option_message<ShapeError>(
      {.mask = full<bool>({2, 4, 10, 12}, true)},
      "mask [2,4,10,12] has 4 in dim 1; expected 8, or 1, to broadcast to the scores [B,Hq,Lq,Lk] [2,8,10,12]");
  check_option_message<ShapeError>(
      {.bias = zeros<float>({3, 1, 10, 12})},
      "bias [3,1,10,12] has 3 in dim 0; expected 2, or 1, to broadcast to the scores [B,Hq,Lq,Lk] [2,8,10,12]");
  check_option_message<ShapeError>(
      {.bias = zeros<float>({1, 1, 12, 12})},
      "bias [1,1,12,12] has 12 in dim 2; expected 10, or 1, to broadcast to the scores [B,Hq,Lq,Lk] [2,8,10,12]");
}

TEST_CASE("attention errors: there is one length for each sequence, and it lies within the sequence") {
  check_option_message<ShapeError>({.key_lengths = {3, 4, 5}},
                                   "key_lengths [3] has 3 in dim 0; expected 2, the batch of query");
  check_option_message<ShapeError>({.query_lengths = {3}},
                                   "query_lengths [1] has 1 in dim 0; expected 2, the batch of query");
  check_option_message<ValueError>(
      {.key_lengths = {3, 13}}, "key_lengths is 13; expected lengths in [0, 12], the extent of the sequences, at [1]");
  check_option_message<ValueError>(
      {.key_lengths = {-1, 3}}, "key_lengths is -1; expected lengths in [0, 12], the extent of the sequences, at [0]");
  check_option_message<ValueError>(
      {.query_lengths = {11, 3}},
      "query_lengths is 11; expected lengths in [0, 10], the extent of the sequences, at [0]");
}

TEST_CASE("attention errors: numbers among the options lie where they make sense") {
  check_option_message<ValueError>({.window_left = -2}, "window_left is -2; expected 0 or more, or -1 for no limit");
  check_option_message<ValueError>({.window_right = -3}, "window_right is -3; expected 0 or more, or -1 for no limit");
  check_option_message<ValueError>({.softcap = -1}, "softcap is -1; expected a positive number, or 0 for none");
  check_option_message<ValueError>({.softcap = not_a_number},
                                   "softcap is nan; expected a positive number, or 0 for none");
  check_option_message<ValueError>({.scale = infinity},
                                   "scale is inf; expected a number that is finite in the scalar type");
  check_option_message<ValueError>({.scale = not_a_number},
                                   "scale is nan; expected a number that is finite in the scalar type");
  check_option_message<ValueError>({.dropout = 2}, "dropout is 2; expected a probability in [0, 1]");
  check_option_message<ValueError>({.dropout = -0.5}, "dropout is -0.5; expected a probability in [0, 1]");
  check_option_message<ValueError>({.dropout = not_a_number}, "dropout is nan; expected a probability in [0, 1]");
}

TEST_CASE("attention errors: slopes, sinks and relative bias have one column for each head") {
  check_option_message<ShapeError>({.alibi_slopes = zeros<float>({4})},
                                   "alibi_slopes [4] has 4 in dim 0; expected 8, the heads of query [2,8,10,64]");
  check_option_message<ShapeError>({.sinks = zeros<float>({9})},
                                   "sinks [9] has 9 in dim 0; expected 8, the heads of query [2,8,10,64]");
  check_option_message<ShapeError>(
      {.relative_bias = {.table = zeros<float>({32, 4})}},
      "relative_bias.table [32,4] has 4 in dim 1; expected 8, the heads of query [2,8,10,64]");
  check_option_message<ValueError>({.relative_bias = {.table = zeros<float>({3, 8})}},
                                   "relative_bias.table's number of buckets is 3; expected 4 or more");
  check_option_message<ValueError>({.relative_bias = {.table = zeros<float>({1, 8}), .bidirectional = false}},
                                   "relative_bias.table's number of buckets is 1; expected 2 or more");
  check_option_message<ValueError>(
      {.relative_bias = {.table = zeros<float>({32, 8}), .max_distance = 8}},
      "relative_bias.max_distance is 8; expected more than the buckets of exact distances, 8");
}

TEST_CASE("attention errors: gradients have the shapes of results") {
  const auto query = zeros<float>(query_shape), key = zeros<float>(key_shape), value = zeros<float>(value_shape);
  const auto result = scaled_dot_product_attention(query, key, value);
  CHECK_THROWS_WITH_AS(
      (void)scaled_dot_product_attention_backward(zeros<float>({2, 8, 10, 64}), query, key, value, result),
      "scaled_dot_product_attention_backward: grad_output [2,8,10,64] has 64 in dim 3; expected 32, the same as "
      "result.output [2,8,10,32]",
      ShapeError);
  const auto grad_logsumexp = zeros<float>({2, 8, 12});
  CHECK_THROWS_WITH_AS(
      (void)scaled_dot_product_attention_backward(result.output, query, key, value, result, {}, &grad_logsumexp),
      "scaled_dot_product_attention_backward: grad_logsumexp [2,8,12] has 12 in dim 2; expected 10, the same as "
      "the log-sum-exp of the inputs, [2,8,10]",
      ShapeError);
  const auto other = scaled_dot_product_attention(zeros<float>({2, 8, 9, 64}), key, value);
  CHECK_THROWS_WITH_AS((void)scaled_dot_product_attention_backward(result.output, query, key, value, other),
                       "scaled_dot_product_attention_backward: result.output [2,8,9,32] has 9 in dim 2; expected 10, "
                       "the same as what the "
                       "inputs give, [2,8,10,32]",
                       ShapeError);
}
