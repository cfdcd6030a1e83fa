// Ops over rows, forward and backward, by the bytes that they read and write.

#include "../support.hpp"

namespace {

using namespace attensor_bench;

constexpr Index row_count = 1024;

template <class Run>
void rows(benchmark::State& state, double passes, Run&& run) {
  Rng rng(1);
  const auto x = normal<float>({row_count, state.range(0)}, rng), dy = normal<float>({row_count, state.range(0)}, rng);
  for (auto _ : state) run(x, dy);
  state.SetBytesProcessed(static_cast<std::int64_t>(passes * sizeof(float) * static_cast<double>(x.size()) *
                                                    static_cast<double>(state.iterations())));
}

void softmax_forward(benchmark::State& state) {
  rows(state, 2, [](const auto& x, const auto&) { benchmark::DoNotOptimize(softmax(x)); });
}
void softmax_backwards(benchmark::State& state) {
  rows(state, 3, [](const auto& x, const auto& dy) { benchmark::DoNotOptimize(softmax_backward(dy, x)); });
}
void layer_norm_forward(benchmark::State& state) {
  const auto weight = ones<float>({state.range(0)}), bias = zeros<float>({state.range(0)});
  rows(state, 2, [&](const auto& x, const auto&) { benchmark::DoNotOptimize(layer_norm(x, weight, bias)); });
}
void layer_norm_forward_backward(benchmark::State& state) {
  const auto weight = ones<float>({state.range(0)}), bias = zeros<float>({state.range(0)});
  LayerNormSaved<float> saved;
  rows(state, 5, [&](const auto& x, const auto& dy) {
    benchmark::DoNotOptimize(layer_norm(x, weight, bias, {}, &saved));
    benchmark::DoNotOptimize(layer_norm_backward(dy, x, weight, saved));
  });
}
template <Activation Kind>
void activation_forward(benchmark::State& state) {
  rows(state, 2, [](const auto& x, const auto&) { benchmark::DoNotOptimize(activation(x, Kind)); });
}
template <Activation Kind>
void activation_backwards(benchmark::State& state) {
  rows(state, 3, [](const auto& x, const auto& dy) { benchmark::DoNotOptimize(activation_backward(dy, x, Kind)); });
}
void dropout_forward(benchmark::State& state) {
  Rng rng(1);
  const DropoutMask mask(0.1, &rng);
  rows(state, 2, [&](const auto& x, const auto&) { benchmark::DoNotOptimize(dropout(x, mask)); });
}

void widths(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->ArgName("width")->Arg(16)->Arg(97)->Arg(512)->Arg(2048);
}

BENCHMARK(softmax_forward)->Name("softmax_forward")->Apply(widths);
BENCHMARK(softmax_backwards)->Name("softmax_backward")->Apply(widths);
BENCHMARK(layer_norm_forward)->Name("layer_norm_forward")->Apply(widths);
BENCHMARK(layer_norm_forward_backward)->Name("layer_norm_forward_backward")->Apply(widths);
BENCHMARK(activation_forward<Activation::relu>)->Name("relu_forward")->Apply(widths);
BENCHMARK(activation_forward<Activation::gelu>)->Name("gelu_forward")->Apply(widths);
BENCHMARK(activation_backwards<Activation::gelu>)->Name("gelu_backward")->Apply(widths);
BENCHMARK(activation_forward<Activation::gelu_tanh>)->Name("gelu_tanh_forward")->Apply(widths);
BENCHMARK(activation_forward<Activation::silu>)->Name("silu_forward")->Apply(widths);
BENCHMARK(dropout_forward)->Name("dropout")->Apply(widths);

}  // namespace
