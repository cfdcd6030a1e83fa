// A step that repeats takes nothing from the heap.

#include <doctest/doctest.h>

#include "allocation/heap_counter.hpp"
#include "attensor/models/text_classifier.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/optim/adam.hpp"
#include "attensor/optim/clip_grad_norm.hpp"

using namespace attensor;
using attensor_test::HeapCounter;

namespace {

/// How often `step` asks the heap once it has run a few times, at one thread and at several.
template <class Step>
void check_steady(Step&& step) {
  if (!HeapCounter::works()) return;  // a sanitizer has an allocator of its own
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (int i = 0; i < 5; ++i) step();
    const HeapCounter counter;
    for (int i = 0; i < 5; ++i) step();
    const std::size_t calls = counter.calls(), bytes = counter.bytes();  // doctest asks the heap too
    CAPTURE(threads);
    CAPTURE(bytes);
    CHECK(calls == 0);
  }
  set_num_threads(0);
}

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

TEST_CASE_TEMPLATE("steady state: a training step with dropout, clipping and Adam", T, float, double) {
  Rng rng(3);
  TextClassifier<T> model(
      {.vocab_size = 20, .embed_dim = 24, .num_heads = 3, .num_layers = 2, .num_classes = 4, .dropout = 0.1}, rng);
  Adam<T> optimizer({.learning_rate = 1e-3});
  typename TextClassifier<T>::Saved saved;
  Tensor<std::int64_t, 2> ids(Shape{6, 11});
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = rng.below(20);
  const Tensor<std::int64_t, 1> targets = {0, 1, 2, 3, 0, 1};
  AttentionOptions<T> options;
  options.rng = &rng;
  check_steady([&] {
    zero_grad(model);
    const auto logits = model.forward(ids, options, &saved);
    (void)cross_entropy(logits, targets);
    model.backward(cross_entropy_backward(logits, targets), saved);
    (void)clip_grad_norm(model, {.max_norm = 1});
    optimizer.step(model);
  });
}
