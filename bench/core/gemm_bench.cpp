// Products at the shapes of transformer layers: with a weight packed ahead, and packed on the fly. of_product is the rate
// relative to a packed 1024^3 product in the same process.

#include "../support.hpp"

namespace {

using namespace attensor_bench;

template <bool Packed>
void product(benchmark::State& state) {
  const Index m = state.range(0), n = state.range(1), k = state.range(2);
  Rng rng(1);
  const auto x = normal<float>({m, k}, rng), weight = normal<float>({n, k}, rng);
  const PackedWeight<float> packed(weight);
  const Tensor<float, 1> no_bias;
  for (auto _ : state) {
    if constexpr (Packed) {
      benchmark::DoNotOptimize(linear(x, packed, no_bias));
    } else {
      benchmark::DoNotOptimize(linear(x, weight));
    }
  }
  count_operations<float>(state, 2.0 * static_cast<double>(m * n * k));
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->ArgNames({"m", "n", "k"});
  for (const Index m : {1, 4, 16, 64, 128, 1024}) benchmark->Args({m, 1536, 384});
  for (const Index m : {16, 1024}) benchmark->Args({m, 384, 1536});
  benchmark->Args({1024, 1024, 1024});
}

BENCHMARK(product<true>)->Name("gemm/packed")->Apply(shapes);
BENCHMARK(product<false>)->Name("gemm/unpacked")->Apply(shapes);

}  // namespace
