// Many threads may share one const model: nothing of a forward pass hides in it.

#include <doctest/doctest.h>

#include <thread>

#include "attensor/layers/encoder.hpp"
#include "support/near.hpp"

using namespace attensor;

TEST_CASE("sharing: 8 threads that share one const encoder, 1,000 inferences each, have the bits of a serial run") {
  Rng rng(1);
  const Encoder<float> shared({.layer = {.embed_dim = 8, .num_heads = 2, .hidden_dim = 16}, .num_layers = 2}, rng);
  constexpr std::size_t kinds = 5;
  std::vector<Tensor<float, 3>> inputs, wanted;
  for (std::size_t i = 0; i < kinds; ++i) {
    inputs.push_back(normal<float>({1 + static_cast<Index>(i) % 2, 3 + static_cast<Index>(i), 8}, rng));
    wanted.push_back(shared.forward(inputs.back(), {.causal = Causal::top_left}));
  }
  const AttentionOptions<float> options{.causal = Causal::top_left};  // shared too
  for (const int pool : {1, 3}) {
    set_num_threads(pool);
    std::vector<int> wrong(8, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t n = 0; n < 1000; ++n) {
          const std::size_t kind = (n + t) % kinds;
          wrong[t] += !bitwise_equal(shared.forward(inputs[kind], options), wanted[kind]);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(8, 0));
  }
  set_num_threads(0);
}

TEST_CASE("sharing: inferences large enough for the pool may come from many threads at once") {
  Rng rng(2);
  const Encoder<float> shared({.layer = {.embed_dim = 64, .num_heads = 4}, .num_layers = 1}, rng);
  const auto x = normal<float>({4, 33, 64}, rng);
  const auto mask = Tensor<bool, 4>(full<bool>({4, 1, 1, 33}, true));
  const AttentionOptions<float> options{.mask = mask};
  set_num_threads(1);
  const auto want = shared.forward(x, options);
  set_num_threads(4);
  std::vector<int> wrong(8, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int n = 0; n < 10; ++n) wrong[t] += !bitwise_equal(shared.forward(x, options), want);
    });
  }
  for (auto& thread : threads) thread.join();
  set_num_threads(0);
  CHECK(wrong == std::vector<int>(8, 0));
}

TEST_CASE("sharing: each thread may train a model of its own, and results may be freed on another thread") {
  const auto train = [] {
    Rng rng(3);
    Encoder<float> own({.layer = {.embed_dim = 12, .num_heads = 3, .dropout = 0.1}, .num_layers = 1}, rng);
    Tensor<float, 3> y;
    for (int n = 0; n < 20; ++n) {
      Encoder<float>::Saved saved;
      const auto x = normal<float>({2, 7, 12}, rng);
      y = own.forward(x, {.rng = &rng}, &saved);
      (void)own.backward(y, saved);
    }
    return y;
  };
  const auto want = train();
  std::vector<Tensor<float, 3>> results(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) threads.emplace_back([&, t] { results[t] = train(); });
  for (auto& thread : threads) thread.join();
  for (const auto& y : results) CHECK(bitwise_equal(y, want));
}
