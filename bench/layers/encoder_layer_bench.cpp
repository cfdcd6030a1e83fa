// A whole encoder layer: inference, inference with packed weights, and forward with backward.

#include "../support.hpp"

namespace {

using namespace attensor_bench;

enum class Mode { forward, packed, forward_backward };

template <Mode Run>
void encoder_layer(benchmark::State& state) {
  const Index batch = state.range(0), length = state.range(1), dim = state.range(2), hidden = 4 * dim;
  Rng rng(1);
  EncoderLayer<float> layer({.embed_dim = dim, .num_heads = state.range(3), .hidden_dim = hidden}, rng);
  if (Run == Mode::packed) layer.pack();
  const auto x = normal<float>({batch, length, dim}, rng);
  EncoderLayer<float>::Saved saved;
  for (auto _ : state) {
    if constexpr (Run == Mode::forward_backward) {
      benchmark::DoNotOptimize(layer.forward(x, {}, &saved));
      benchmark::DoNotOptimize(layer.backward(x, saved));
    } else {
      benchmark::DoNotOptimize(layer.forward(x));
    }
  }
  const double multiply_adds =
      static_cast<double>(batch * length) * static_cast<double>(4 * dim * dim + 2 * dim * hidden + 2 * length * dim);
  count_operations<float>(state, (Run == Mode::forward_backward ? 3 : 1) * 2 * multiply_adds);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->ArgNames({"B", "L", "dim", "heads"});
  benchmark->Args({2, 4, 16, 4})
      ->Args({1, 16, 64, 4})
      ->Args({1, 16, 384, 12})
      ->Args({1, 128, 384, 12})
      ->Args({8, 128, 512, 8});
}

BENCHMARK(encoder_layer<Mode::forward>)->Name("encoder_layer_forward")->Apply(shapes);
BENCHMARK(encoder_layer<Mode::packed>)->Name("encoder_layer_forward/packed")->Apply(shapes);
BENCHMARK(encoder_layer<Mode::forward_backward>)->Name("encoder_layer_forward_backward")->Apply(shapes);

}  // namespace
