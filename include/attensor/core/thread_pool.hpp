#pragma once
/// \file
/// The threads that loops run on, and how many of them there should be.

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "attensor/core/error.hpp"

namespace attensor::inline ATTENSOR_ISA {
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

}  // namespace detail
}  // namespace attensor::inline ATTENSOR_ISA
