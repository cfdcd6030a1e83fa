#pragma once
// What the benchmarks share: counters relative to the rate of a large product in the same process.

#include <benchmark/benchmark.h>

#include <chrono>

#include "attensor/attensor.hpp"

namespace attensor_bench {

using namespace attensor;

/// Floating-point operations a second of a packed 1024^3 product on the calling thread: the yardstick of all others.
template <class T>
double product_rate() {
  static const double rate = [] {
    constexpr Index n = 1024;
    const auto a = full<T>({n, n}, T(1)), b = full<T>({n, n}, T(1));
    auto c = empty<T>({n, n});
    const PackedWeight<T> packed(b);
    const int threads = get_num_threads();
    set_num_threads(1);
    double best = 0;
    for (int run = 0; run < 5; ++run) {
      const auto start = std::chrono::steady_clock::now();
      packed.multiply(detail::matrix_view<T>(a), nullptr, c.data(), n);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best = std::max(best, 2.0 * n * n * n / seconds);
    }
    set_num_threads(threads);
    return best;
  }();
  return rate;
}

/// Reports `operations` an iteration as GFLOP/s, and as a fraction of product_rate.
template <class T>
void count_operations(benchmark::State& state, double operations) {
  const double total = operations * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(total * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of_product"] = benchmark::Counter(total / product_rate<T>(), benchmark::Counter::kIsRate);
}

}  // namespace attensor_bench
