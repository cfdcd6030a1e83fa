// Mirrors include/attensor/core/parallel.hpp.

#include "attensor/core/parallel.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "support/near.hpp"
#include "support/random_cases.hpp"

using namespace attensor;

namespace {

/// The number of threads is that of before once the test is over.
struct WithThreads {
  explicit WithThreads(int threads) { set_num_threads(threads); }
  ~WithThreads() { set_num_threads(0); }
};

/// Each index of a loop is run once, whatever the grain.
void check_loop(Index count, Index grain) {
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
  parallel_for(count, grain, [&](Index i) { ++runs[static_cast<std::size_t>(i)]; });
  CHECK(std::all_of(runs.begin(), runs.end(), [](const auto& n) { return n == 1; }));
}

}  // namespace

TEST_CASE("parallel_for: each index once, at any number of threads, count and grain") {
  for (const int threads : {1, 2, 3, 8}) {
    const WithThreads with(threads);
    CHECK(get_num_threads() == threads);
    for (const Index count : {0, 1, 2, 7, 97, 1000}) {
      for (const Index grain : {1, 3, 100, 5000, 0, -1}) check_loop(count, grain);
    }
  }
}

TEST_CASE("parallel_chunks: chunks begin at multiples of the grain, and depend on nothing else") {
  for (const int threads : {1, 4}) {
    const WithThreads with(threads);
    std::mutex mutex;
    std::set<std::pair<Index, Index>> chunks;
    parallel_chunks(25, 10, [&](Index begin, Index end) {
      const std::lock_guard lock(mutex);
      chunks.emplace(begin, end);
    });
    CHECK(chunks == std::set<std::pair<Index, Index>>{{0, 10}, {10, 20}, {20, 25}});
  }
  int calls = 0;
  parallel_chunks(std::numeric_limits<Index>::max(), std::numeric_limits<Index>::max() - 1,
                  [&](Index, Index) { ++calls; });
  CHECK(calls == 2);
  parallel_chunks(-5, 1, [&](Index, Index) { ++calls; });
  CHECK(calls == 2);
}

TEST_CASE("parallel_for: several threads do take part") {
  const WithThreads with(4);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> arrived{0};
  for (int attempt = 0; attempt < 50 && seen.size() < 2; ++attempt) {
    parallel_for(64, [&](Index) {
      ++arrived;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  }
  CHECK(seen.size() >= 2);
  CHECK(seen.size() <= 4);
}

TEST_CASE("parallel_for: loops within loops run all their indices") {
  for (const int threads : {1, 2, 5}) {
    const WithThreads with(threads);
    std::atomic<int> runs{0};
    parallel_for(10, [&](Index) { parallel_for(10, [&](Index) { parallel_for(3, [&](Index) { ++runs; }); }); });
    CHECK(runs == 300);
  }
}

TEST_CASE("parallel_for: loops from many threads at once run all their indices") {
  const WithThreads with(3);
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 8; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) parallel_for(20, [&](Index) { ++runs; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(runs == 8 * 200 * 20);
}

TEST_CASE("parallel_for: an exception comes out after all tasks have ended, and the next loop works") {
  for (const int threads : {1, 4}) {
    const WithThreads with(threads);
    std::atomic<int> runs{0};
    CHECK_THROWS_WITH_AS(parallel_for(100,
                                      [&](Index i) {
                                        ++runs;
                                        if (i == 17) throw std::runtime_error("seventeen");
                                      }),
                         "seventeen", std::runtime_error);
    CHECK(runs == 100);
    CHECK_THROWS_AS(parallel_for(50, [](Index) { throw ValueError("all"); }), ValueError);
    CHECK_THROWS_AS(parallel_for(1, [](Index) { throw 5; }), int);
    check_loop(100, 1);
  }
}

TEST_CASE("parallel_for: an exception from a loop within a loop comes out of both") {
  const WithThreads with(3);
  CHECK_THROWS_AS(parallel_for(4,
                               [](Index i) {
                                 parallel_for(4, [i](Index j) {
                                   if (i == 2 && j == 3) throw ValueError("inner");
                                 });
                               }),
                  ValueError);
  check_loop(100, 1);
}

TEST_CASE("set_num_threads: 0 is the default, negative numbers and calls within a loop are errors") {
  set_num_threads(0);
  CHECK(get_num_threads() >= 1);
  CHECK_THROWS_WITH_AS(set_num_threads(-1), "set_num_threads: threads is -1; expected 0 (the default) to 1024",
                       ValueError);
  const WithThreads with(2);
  CHECK_THROWS_WITH_AS(parallel_for(2, [](Index) { set_num_threads(3); }),
                       "set_num_threads: called within a parallel loop; expected a call outside of one", ValueError);
  CHECK(get_num_threads() == 2);
}

TEST_CASE("set_num_threads: may be changed again and again, also while other threads run loops") {
  std::atomic<bool> stop{false};
  std::atomic<Index> loops{0}, runs{0};
  std::thread other([&] {
    while (!stop) {
      parallel_for(16, [&](Index) { ++runs; });
      ++loops;
    }
  });
  for (int i = 0; i < 100; ++i) set_num_threads(1 + i % 5);
  stop = true;
  other.join();
  CHECK(runs == 16 * loops);
  set_num_threads(0);
}

TEST_CASE("ATTENSOR_NUM_THREADS: sets the default, what is no number does not") {
  REQUIRE(setenv("ATTENSOR_NUM_THREADS", "3", 1) == 0);
  CHECK(detail::default_num_threads() == 3);
  set_num_threads(0);
  CHECK(get_num_threads() == 3);
  setenv("ATTENSOR_NUM_THREADS", "99999999", 1);
  CHECK(detail::default_num_threads() <= 1024);
  for (const char* text : {"0", "-2", "many", ""}) {
    setenv("ATTENSOR_NUM_THREADS", text, 1);
    const int threads = detail::default_num_threads();
    CHECK(threads >= 1);
    CHECK(threads <= std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  }
  unsetenv("ATTENSOR_NUM_THREADS");
  set_num_threads(0);
}

namespace {

/// A host program's pool: new threads for each loop, and a count of the loops.
struct HostPool {
  std::atomic<int> loops{0};
  std::atomic<int> inside{0};
  std::atomic<bool> entered_twice{false};

  static void run(void* context, Index count, void (*task)(void* data, Index i), void* data) {
    auto& self = *static_cast<HostPool*>(context);
    ++self.loops;
    if (self.inside.exchange(1) == 1) self.entered_twice = true;
    std::atomic<Index> next{0};
    const auto work = [&] {
      for (Index i = next++; i < count; i = next++) task(data, i);
    };
    std::thread other(work);
    work();
    other.join();
    self.inside = 0;
  }
};

}  // namespace

TEST_CASE("ParallelHook: loops run on the host's threads, errors and nesting as in the pool") {
  HostPool host;
  set_parallel_hook({&HostPool::run, &host});
  check_loop(100, 1);
  CHECK(host.loops == 1);
  check_loop(1, 1);
  CHECK(host.loops == 1);  // a single task needs no other thread
  CHECK_THROWS_AS(parallel_for(50,
                               [](Index i) {
                                 if (i == 20) throw ValueError("hook");
                               }),
                  ValueError);
  std::atomic<int> runs{0};
  parallel_for(10, [&](Index) { parallel_for(10, [&](Index) { ++runs; }); });
  CHECK(runs == 100);
  CHECK(host.loops == 3);  // loops within a task run there, so that a pool that cannot nest does not lock up
  CHECK(!host.entered_twice);
  CHECK_THROWS_AS(parallel_for(2, [](Index) { set_num_threads(3); }), ValueError);
  set_parallel_hook({});
  check_loop(100, 1);
  CHECK(host.loops == 4);
}

TEST_CASE("parallel_row_sums: the same bits at any number of threads, and the right sums") {
  for_random_cases(20, [](Rng& rng, Index width) {
    const Index rows = random_between(rng, 0, 3000);
    const auto x = normal<float>({rows, width}, rng);
    const auto start = normal<float>({width}, rng);
    Tensor<float, 1> first;
    for (const int threads : {1, 2, 3, 8}) {
      const WithThreads with(threads);
      Tensor<float, 1> sums = start;
      detail::parallel_row_sums(rows, width, sums.data(), [&](Index row, float* partial) {
        for (Index j = 0; j < width; ++j) partial[j] += x(row, j);
      });
      if (threads == 1) first = sums;
      CHECK(bitwise_equal(sums, first));
    }
    auto want = to<double>(start);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < width; ++j) want(j) += static_cast<double>(x(i, j));
    }
    CHECK_NEAR(first, want, 1e-4);
  });
}
