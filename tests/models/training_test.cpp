// What training with a whole model promises: it learns, and its bits do not depend on threads, on the run, or on what memory
// held before.

#include <doctest/doctest.h>

#include <bit>
#include <iostream>
#include <vector>

#include "attensor/models/text_classifier.hpp"
#include "attensor/ops/cross_entropy.hpp"
#include "attensor/optim/adam.hpp"
#include "attensor/optim/clip_grad_norm.hpp"
#include "support/near.hpp"

using namespace attensor;

namespace {

// ThreadSanitizer sees in ten steps what it sees in a hundred.
#if defined(__SANITIZE_THREAD__)
constexpr int hundred_steps = 10;
#else
constexpr int hundred_steps = 100;
#endif

/// Does token 5 occur? Sequences of up to `length` ids in [1, 32), padded with 0.
struct Task {
  Tensor<std::int64_t, 2> ids;
  Tensor<std::int64_t, 1> labels;

  Task(Index count, Index length, Rng& rng) : ids(Shape{count, length}), labels(Shape{count}) {
    for (Index i = 0; i < count; ++i) {
      const Index real = length / 2 + rng.below(length - length / 2) + 1;
      for (Index s = 0; s < std::min(real, length); ++s) {
        ids(i, s) = 1 + rng.below(31);
        if (ids(i, s) == 5) labels(i) = 1;
      }
    }
  }
};

template <Scalar T>
struct Run {
  TextClassifier<T> model;
  std::vector<T> losses;
};

/// Everything that a training run draws comes from this seed.
template <Scalar T>
Run<T> train(const TextClassifierOptions& options, const Task& task, int steps, double learning_rate,
             std::uint64_t seed) {
  Rng rng(seed);
  Run<T> run{TextClassifier<T>(options, rng), {}};
  Adam<T> optimizer({.learning_rate = learning_rate});
  typename TextClassifier<T>::Saved saved;
  for (int step = 0; step < steps; ++step) {
    zero_grad(run.model);
    const auto logits = run.model.forward(task.ids, {.rng = &rng}, &saved);
    run.losses.push_back(cross_entropy(logits, task.labels));
    run.model.backward(cross_entropy_backward(logits, task.labels), saved);
    (void)clip_grad_norm(run.model, {.max_norm = 1});
    optimizer.step(run.model);
  }
  return run;
}

template <class A, class B>
bool same_parameters(const A& a, const B& b) {
  std::vector<std::vector<unsigned char>> bytes[2];
  const auto collect = [](const auto& model, auto& to) {
    visit_parameters(model, [&](const ParameterPath&, const auto& parameter) {
      const auto* first = reinterpret_cast<const unsigned char*>(parameter.value.data());
      to.emplace_back(first,
                      first + static_cast<std::size_t>(parameter.value.size()) * sizeof(*parameter.value.data()));
    });
  };
  collect(a, bytes[0]);
  collect(b, bytes[1]);
  return bytes[0] == bytes[1];
}

/// Fills the memory that waits to be used again with NaNs, in blocks of many sizes: a value that is read before it is written
/// shows.
void soil_memory() {
  std::vector<Tensor<float, 1>> blocks;
  for (Index size = 16; size < 200000; size += size / 5 + 16) {
    for (int i = 0; i < 8; ++i) blocks.push_back(full<float>({size}, static_cast<float>(not_a_number)));
  }
}

/// `steps` at 1, 2, 3 and 8 threads, each after other memory than the first run.
template <Scalar T>
void check_same_bits(const TextClassifierOptions& options, const Task& task, int steps) {
  set_num_threads(1);
  const auto want = train<T>(options, task, steps, 1e-3, 42);
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    soil_memory();
    const auto got = train<T>(options, task, steps, 1e-3, 42);
    CAPTURE(threads);
    CHECK(got.losses == want.losses);
    CHECK(same_parameters(got.model, want.model));
  }
  set_num_threads(0);
}

}  // namespace

TEST_CASE(
    "training: 100 steps with dropout, clipping and Adam have the same bits at 1, 2, 3 and 8 threads and from run to "
    "run") {
  Rng rng(1);
  const Task task(12, 17, rng);
  for (const Pooling pooling : {Pooling::first, Pooling::mean}) {
    check_same_bits<float>({.vocab_size = 32,
                            .embed_dim = 40,
                            .num_heads = 4,
                            .num_layers = 2,
                            .hidden_dim = 72,
                            .dropout = 0.1,
                            .pooling = pooling},
                           task, hundred_steps);
  }
}

TEST_CASE("training: the same bits in double, at an odd width") {
  Rng rng(2);
  const Task task(9, 13, rng);
  check_same_bits<double>({.vocab_size = 32, .embed_dim = 33, .num_heads = 3, .num_layers = 1, .dropout = 0.2}, task,
                          30);
}

TEST_CASE("training: the same bits where every product is large enough to be cut") {
  Rng rng(3);
  const Task task(16, 40, rng);
  check_same_bits<float>({.vocab_size = 32, .embed_dim = 168, .num_heads = 3, .num_layers = 1, .dropout = 0.1}, task,
                         4);
}

TEST_CASE("training: digest, for same_bits.cmake to compare between processes" * doctest::skip()) {
  Rng rng(1);
  const Task task(12, 17, rng);
  const auto run = train<float>({.vocab_size = 32, .embed_dim = 40, .num_heads = 4, .num_layers = 2, .dropout = 0.1},
                                task, hundred_steps, 1e-3, 42);
  std::uint64_t digest = 1469598103934665603;  // FNV-1a
  visit_parameters(run.model, [&](const ParameterPath&, const auto& parameter) {
    for (Index i = 0; i < parameter.value.size(); ++i) {
      digest = (digest ^ std::bit_cast<std::uint32_t>(parameter.value.data()[i])) * 1099511628211;
    }
  });
  std::cout << "digest " << std::hex << digest << std::dec << '\n';
}

TEST_CASE("training: another seed gives other bits") {
  Rng rng(1);
  const Task task(8, 9, rng);
  const TextClassifierOptions options = {.vocab_size = 32, .embed_dim = 16, .num_heads = 2};
  CHECK(!same_parameters(train<float>(options, task, 1, 1e-3, 1).model, train<float>(options, task, 1, 1e-3, 2).model));
}

TEST_CASE("training: the loss falls, and the model tells what it has learned") {
  Rng rng(4);
  const Task task(100, 8, rng);
  for (const Pooling pooling : {Pooling::first, Pooling::mean}) {
    const auto run = train<float>({.vocab_size = 32,
                                   .embed_dim = 32,
                                   .num_heads = 4,
                                   .num_layers = 1,
                                   .hidden_dim = 64,
                                   .dropout = 0.05,
                                   .pooling = pooling},
                                  task, 150, 3e-3, 7);
    CHECK(run.losses.front() > 0.3f);
    CHECK(run.losses.back() < 0.1f);
    const auto logits = run.model.forward(task.ids);
    Index right = 0;
    for (Index i = 0; i < logits.extent(0); ++i) right += (logits(i, 1) > logits(i, 0)) == (task.labels(i) == 1);
    CHECK(right >= 95);
  }
}
