#pragma once
/// \file
/// Loops over independent tasks, on a pool of threads or on the host program's own.
///
/// What a task computes must not depend on which thread runs it, and every split into tasks in this library is a
/// function of shapes alone. So results have the same bits at any number of threads.

#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "attensor/core/tensor.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Hands loops to the host program's own threads. `run` calls task(data, i) once for each i in [0, count), on any
/// threads in any order, and returns when all calls have. Tasks do not throw, and loops within a task do not reach the
/// hook.
struct ParallelHook {
  void (*run)(void* context, Index count, void (*task)(void* data, Index i), void* data) = nullptr;
  void* context = nullptr;
};

namespace detail {

inline constexpr int most_threads = 1024;

/// The processors that the control group's quota amounts to, the strictest of the group and its parents; 0 without a
/// quota.
inline double control_group_processors() {
  double least = 0;
  const auto limit = [&](double quota, double period) {
    if (quota > 0 && period > 0) least = least > 0 ? std::min(least, quota / period) : quota / period;
  };
  std::ifstream groups("/proc/self/cgroup");
  std::string line, path;
  while (std::getline(groups, line)) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  while (true) {
    double quota = 0, period = 0;
    if (std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max"); file >> quota >> period)
      limit(quota, period);  // "max" does not parse
    const auto parent = path.rfind('/');
    if (path.empty() || parent == std::string::npos) break;
    path.resize(parent);
  }
  double quota = 0, period = 0;
  std::ifstream old_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), old_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (old_quota >> quota && old_period >> period) limit(quota, period);
  return least;
}

/// ATTENSOR_NUM_THREADS where it is a number, else the processors that this process may use.
inline int default_num_threads() {
  if (const char* text = std::getenv("ATTENSOR_NUM_THREADS")) {
    int wanted = 0;
    const char* const end = text + std::string_view(text).size();
    const auto [rest, error] = std::from_chars(text, end, wanted);
    if (error == std::errc() && rest == end && wanted > 0) return std::min(wanted, most_threads);
  }
  const int seen = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, most_threads);
  const double quota = control_group_processors();
  return quota > 0 ? std::clamp(static_cast<int>(std::ceil(quota)), 1, seen) : seen;
}

class ThreadPool {
 public:
  using Task = void (*)(void* data, Index i);

  static ThreadPool& instance() {
    static ThreadPool* const pool = new ThreadPool;  // never destroyed: its threads may be asleep when the program ends
    return *pool;
  }

  /// A loop within a task, or while another caller has the pool, runs on its own thread: nothing waits for anything.
  void run(Index count, Task task, void* data) {
    if (count <= 1 || num_threads_.load(std::memory_order_relaxed) == 1 || in_task() || !owner_.try_lock()) {
      for (Index i = 0; i < count; ++i) task(data, i);
      return;
    }
    const std::lock_guard lock(owner_, std::adopt_lock);
    start_workers();
    job_ = {task, data, count};
    next_.store(0, std::memory_order_relaxed);
    state_.store(open, std::memory_order_release);
    wake_.fetch_add(1, std::memory_order_release);
    wake_.notify_all();
    work();
    // Closed to workers that come late; those inside are waited for.
    std::uint32_t inside = state_.fetch_and(~open, std::memory_order_acq_rel) & ~open;
    while (inside != 0) {
      state_.wait(inside, std::memory_order_acquire);
      inside = state_.load(std::memory_order_acquire);
    }
  }

  int num_threads() const { return num_threads_.load(std::memory_order_relaxed); }

  void set_num_threads(int threads) {
    if (in_task())
      throw_error<ValueError>({"set_num_threads: called within a parallel loop; expected a call outside of one"});
    const std::lock_guard lock(owner_);
    if (threads == num_threads()) return;
    stop_.store(true, std::memory_order_relaxed);
    wake_.fetch_add(1, std::memory_order_release);
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stop_.store(false, std::memory_order_relaxed);
    num_threads_.store(threads, std::memory_order_relaxed);
  }

  /// Whether the calling thread is inside a task.
  static bool& in_task() {
    static thread_local bool inside = false;
    return inside;
  }

 private:
  struct Job {
    Task task = nullptr;
    void* data = nullptr;
    Index count = 0;
  };
  static constexpr std::uint32_t open = std::uint32_t{1} << 31;  // the other bits of state_ count the workers inside

  /// Threads start with the first loop that can use them. Where the system gives fewer, fewer share the work.
  void start_workers() noexcept {
    try {
      while (static_cast<int>(workers_.size()) + 1 < num_threads()) {
        workers_.emplace_back([this, seen = wake_.load(std::memory_order_acquire)]() mutable {
          while (true) {
            wake_.wait(seen, std::memory_order_acquire);
            seen = wake_.load(std::memory_order_acquire);
            if (stop_.load(std::memory_order_relaxed)) return;
            join_job();
          }
        });
      }
    } catch (const std::exception&) {  // no thread, or no memory for one: it is not asked for again
      num_threads_.store(static_cast<int>(workers_.size()) + 1, std::memory_order_relaxed);
    }
  }

  void join_job() {
    std::uint32_t state = state_.load(std::memory_order_acquire);
    while (state & open) {
      if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
      work();
      state_.fetch_sub(1, std::memory_order_acq_rel);
      state_.notify_all();
      return;
    }
  }

  void work() {
    in_task() = true;
    for (Index i = next_.fetch_add(1, std::memory_order_relaxed); i < job_.count;
         i = next_.fetch_add(1, std::memory_order_relaxed)) {
      job_.task(job_.data, i);
    }
    in_task() = false;
  }

  std::mutex owner_;  // held by the one caller whose loop the workers run
  std::vector<std::thread> workers_;
  std::atomic<int> num_threads_{default_num_threads()};
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> wake_{0};
  std::atomic<std::uint32_t> state_{0};
  std::atomic<Index> next_{0};
  Job job_;
};

inline std::atomic<const ParallelHook*> parallel_hook{nullptr};

/// A task on a thread of the host's: loops within it run there and do not reach the hook, whose pool may not nest.
struct HookedTask {
  ThreadPool::Task task;
  void* data;

  static void run(void* self, Index i) {
    const auto& hooked = *static_cast<const HookedTask*>(self);
    const bool before = std::exchange(ThreadPool::in_task(), true);
    hooked.task(hooked.data, i);
    ThreadPool::in_task() = before;
  }
};

inline void run_tasks(Index count, ThreadPool::Task task, void* data) {
  const ParallelHook* hook = parallel_hook.load(std::memory_order_acquire);
  if (!hook || count <= 1 || ThreadPool::in_task()) return ThreadPool::instance().run(count, task, data);
  HookedTask hooked{task, data};
  hook->run(hook->context, count, &HookedTask::run, &hooked);
}

}  // namespace detail

/// The number of threads that loops may use, the caller's among them.
inline int get_num_threads() { return detail::ThreadPool::instance().num_threads(); }

/// Sets it; 0 asks for the default: ATTENSOR_NUM_THREADS, or the processors that the process may use. Results do not
/// depend on it. 1 ends all threads of the pool, as a plug-in should before it is unloaded. \throws ValueError for a
/// number that is negative or above 1024
inline void set_num_threads(int threads) {
  if (threads < 0 || threads > detail::most_threads) {
    throw_error<ValueError>({"set_num_threads: threads is ", std::to_string(threads), "; expected 0 (the default) to ",
                             std::to_string(detail::most_threads)});
  }
  detail::ThreadPool::instance().set_num_threads(threads == 0 ? detail::default_num_threads() : threads);
}

/// Runs all loops through `hook` instead of the pool; a hook without `run` gives them back to the pool. Set it while no
/// loop runs.
inline void set_parallel_hook(const ParallelHook& hook) {
  static ParallelHook current;
  detail::parallel_hook.store(nullptr, std::memory_order_release);
  current = hook;
  if (hook.run) detail::parallel_hook.store(&current, std::memory_order_release);
}

/// body(begin, end) over [0, count) in chunks of `grain`, in any order and on any threads. Calls may be nested and may
/// come from many threads at once. The first exception that a body throws is thrown here, after all chunks have ended.
template <class Body>
void parallel_chunks(Index count, Index grain, Body&& body) {
  grain = std::max<Index>(grain, 1);
  const Index chunks = count / grain + (count % grain != 0);
  if (chunks <= 1) {
    if (count > 0) body(Index{0}, count);
    return;
  }
  struct Context {
    Body& body;
    Index count, grain;
    std::atomic<bool> failed{false};
    std::exception_ptr error{};
  } context{body, count, grain};
  detail::run_tasks(
      chunks,
      [](void* data, Index chunk) {
        auto& c = *static_cast<Context*>(data);
        const Index begin = chunk * c.grain;
        try {
          c.body(begin, std::min(begin + c.grain, c.count));
        } catch (...) {
          if (!c.failed.exchange(true)) c.error = std::current_exception();
        }
      },
      &context);
  if (context.error) std::rethrow_exception(context.error);
}

/// body(i) for each i in [0, count), `grain` of them to a task.
template <class Body>
void parallel_for(Index count, Index grain, Body&& body) {
  parallel_chunks(count, grain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) body(i);
  });
}
template <class Body>
void parallel_for(Index count, Body&& body) {
  parallel_for(count, 1, body);
}

namespace detail {

/// How many items of `cost` elementary steps each make a task worth handing to another thread.
inline Index grain_for(Index cost) { return std::max<Index>(1, 16384 / std::max<Index>(1, cost)); }

/// Sums over rows in a fixed order. `totals` is [width] and is added to. Rows are cut into chunks by their number
/// alone; body(row, partial) adds to its chunk's own partial sums, and these are added up in order.
template <class T, class Body>
void parallel_row_sums(Index count, Index width, T* totals, Body&& body) {
  constexpr Index most_chunks = 16;
  const Index rows_per_chunk = std::max(grain_for(width), (count + most_chunks - 1) / most_chunks);
  const Index chunks = (count + rows_per_chunk - 1) / rows_per_chunk;
  if (chunks <= 1) {
    for (Index row = 0; row < count; ++row) body(row, totals);
    return;
  }
  const Scratch<T> partials(chunks * width);
  parallel_chunks(count, rows_per_chunk, [&](Index begin, Index end) {
    T* partial = partials.data() + begin / rows_per_chunk * width;
    std::fill_n(partial, width, T(0));
    for (Index row = begin; row < end; ++row) body(row, partial);
  });
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    for (Index i = 0; i < width; ++i) totals[i] += partials[chunk * width + i];
  }
}

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
