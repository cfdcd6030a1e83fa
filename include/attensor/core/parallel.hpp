#pragma once
/// \file
/// Loops over independent tasks, on a pool of threads or on the host program's own.
///
/// What a task computes must not depend on which thread runs it, and a split that sums follow is in this library a
/// function of shapes alone. So results have the same bits at any number of threads.

#include <atomic>
#include <exception>

#include "attensor/core/tensor.hpp"
#include "attensor/core/thread_pool.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Hands loops to the host program's own threads. `run` calls task(data, i) once for each i in [0, count), on any
/// threads in any order, and returns when all calls have. Tasks do not throw, and loops within a task do not reach the
/// hook.
struct ParallelHook {
  void (*run)(void* context, Index count, void (*task)(void* data, Index i), void* data) = nullptr;
  void* context = nullptr;
};

namespace detail {

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
          c.body(begin, begin + std::min(c.grain, c.count - begin));
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
