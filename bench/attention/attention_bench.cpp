// Scaled dot-product attention. Operations count 4 L^2 D a head forward and 10 L^2 D backward, half of it when causal.

#include "../support.hpp"

namespace {

using namespace attensor_bench;

template <bool Backward>
void sdpa(benchmark::State& state) {
  const Index batch = state.range(0), heads = state.range(1), length = state.range(2), dim = state.range(3);
  Rng rng(1);
  const auto x = normal<float>({batch, heads, length, dim}, rng);
  const AttentionOptions<float> options = {.causal = state.range(4) ? Causal::top_left : Causal::none};
  const auto result = scaled_dot_product_attention(x, x, x, options);
  for (auto _ : state) {
    if constexpr (Backward) {
      benchmark::DoNotOptimize(scaled_dot_product_attention_backward(x, x, x, x, result, options));
    } else {
      benchmark::DoNotOptimize(scaled_dot_product_attention(x, x, x, options));
    }
  }
  const double pairs = static_cast<double>(batch * heads * length * length) / (state.range(4) ? 2 : 1);
  count_operations<float>(state, (Backward ? 10 : 4) * pairs * static_cast<double>(dim));
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->ArgNames({"B", "H", "L", "D", "causal"});
  for (const Index causal : {0, 1}) {
    benchmark->Args({64, 4, 8, 8, causal});
    benchmark->Args({32, 12, 128, 32, causal});
    for (const Index length : {16, 64, 256, 1024}) benchmark->Args({1, 8, length, 64, causal});
  }
}

BENCHMARK(sdpa<false>)->Name("sdpa_forward/reference")->Apply(shapes);
BENCHMARK(sdpa<true>)->Name("sdpa_backward/reference")->Apply(shapes);

}  // namespace
