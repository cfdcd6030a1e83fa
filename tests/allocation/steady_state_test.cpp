// A step that repeats takes nothing from the heap.

#include <doctest/doctest.h>

#include "allocation/steady_step.hpp"
#include "attensor/layers/self_attention.hpp"
#include "attensor/models/text_classifier.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/optim/adam.hpp"
#include "attensor/optim/clip_grad_norm.hpp"

using namespace attensor;
using attensor_test::check_steady;

namespace {

const EncoderOptions encoder_options = {
    .layer = {.embed_dim = 24, .num_heads = 3, .hidden_dim = 70, .activation = Activation::gelu, .dropout = 0.1},
    .num_layers = 2};

}  // namespace

TEST_CASE("steady state: an encoder's inference") {
  Rng rng(1);
  const Encoder<float> encoder(encoder_options, rng);
  const auto x = normal<float>({3, 17, 24}, rng);
  const Tensor<std::int64_t, 2> ids(Shape{3, 17});
  AttentionOptions<float> options;
  check_steady([&] { (void)encoder.forward(x, options); });
  options.mask = padding_mask(ids, 1);
  check_steady([&] { (void)encoder.forward(x, options); });
  options.causal = Causal::top_left;
  check_steady([&] { (void)encoder.forward(x, options); });
}

TEST_CASE("steady state: an encoder large enough for threads and packed products") {
  Rng rng(2);
  const Encoder<float> encoder({.layer = {.embed_dim = 128, .num_heads = 4}, .num_layers = 2}, rng);
  const auto x = normal<float>({4, 64, 128}, rng);
  check_steady([&] { (void)encoder.forward(x); });
}

TEST_CASE("steady state: lengths, windows, ALiBi, a bias and a sink, which an encoder hands to each layer") {
  Rng rng(4);
  const Encoder<float> encoder(encoder_options, rng);
  const auto x = normal<float>({3, 17, 24}, rng);
  check_steady([&, options = AttentionOptions<float>{.key_lengths = {17, 3, 0}, .query_lengths = {17, 3, 1}}] {
    (void)encoder.forward(x, options);
  });
  check_steady([&, options = AttentionOptions<float>{.bias = zeros<float>({1, 3, 17, 17}),
                                                     .window_left = 4,
                                                     .softcap = 3,
                                                     .alibi_slopes = {0.5f, 0.25f, 0.125f},
                                                     .sinks = {0, 1, 2}}] { (void)encoder.forward(x, options); });
}

TEST_CASE("steady state: options and masks made anew for each step") {
  Rng rng(5);
  const Encoder<float> encoder(encoder_options, rng);
  const auto x = normal<float>({3, 17, 24}, rng);
  const Tensor<std::int64_t, 2> ids(Shape{3, 17});
  check_steady([&] {
    (void)encoder.forward(x, {.mask = padding_mask(ids, 1) & causal_mask(17), .key_lengths = {17, 5, 9}});
  });
}

TEST_CASE("steady state: weights packed ahead, cross-attention, and single heads") {
  Rng rng(6);
  MultiHeadAttention<float> cross({.embed_dim = 24, .num_heads = 6, .num_kv_heads = 2, .key_dim = 10, .value_dim = 11},
                                  rng);
  const auto query = normal<float>({2, 5, 24}, rng), key = normal<float>({2, 9, 10}, rng),
             value = normal<float>({2, 9, 11}, rng);
  MultiHeadAttention<float>::Saved saved;
  check_steady([&] {
    const auto y = cross.forward(query, key, value, {}, &saved);
    (void)cross.backward_cross(y, saved);
  });
  cross.pack();
  check_steady([&] { (void)cross.forward(query, key, value); });
  SelfAttention<float> single({.embed_dim = 24, .key_dim = 7, .output_projection = true}, rng);
  SelfAttention<float>::Saved saved_single;
  check_steady([&] { (void)single.backward(single.forward(query, {}, &saved_single), saved_single); });
}

TEST_CASE("steady state: blocks of more than 4 MiB") {
  Rng rng(7);
  Encoder<float> encoder(
      {.layer = {.embed_dim = 16, .num_heads = 2, .hidden_dim = 1100, .dropout = 0.1}, .num_layers = 1}, rng);
  const auto x = normal<float>({1, 1100, 16}, rng);  // weights of a head and the hidden layer take 4.8 MB each
  check_steady([&] { (void)encoder.forward(x); });
  Encoder<float>::Saved saved;
  Adam<float> optimizer;
  check_steady([&] {
    zero_grad(encoder);
    (void)encoder.backward(encoder.forward(x, {.rng = &rng}, &saved), saved);
    (void)clip_grad_norm(encoder, {.max_norm = 1});
    optimizer.step(encoder);
  });
}

TEST_CASE_TEMPLATE("steady state: a training step with dropout, clipping and Adam, both poolings", T, float, double) {
  Tensor<std::int64_t, 2> ids(Shape{6, 11});
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = i * 7 % 20;  // some padding among them
  const Tensor<std::int64_t, 1> targets = {0, 1, 2, 3, 0, 1};
  for (const Pooling pooling : {Pooling::first, Pooling::mean}) {
    Rng rng(3);
    TextClassifier<T> model({.vocab_size = 20,
                             .embed_dim = 24,
                             .num_heads = 3,
                             .num_layers = 2,
                             .num_classes = 4,
                             .dropout = 0.1,
                             .pooling = pooling},
                            rng);
    Adam<T> optimizer({.learning_rate = 1e-3});
    typename TextClassifier<T>::Saved saved;
    check_steady([&] {
      zero_grad(model);
      const auto logits = model.forward(ids, {.rng = &rng}, &saved);
      (void)cross_entropy(logits, targets);
      model.backward(cross_entropy_backward(logits, targets), saved);
      (void)clip_grad_norm(model, {.max_norm = 1});
      optimizer.step(model);
    });
  }
}
