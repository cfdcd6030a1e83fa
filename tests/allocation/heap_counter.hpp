#pragma once
/// \file
/// Counts what a piece of code asks the heap for: calls of malloc, calloc, realloc, aligned_alloc, posix_memalign, mmap
/// and operator new, on all threads. (Eigen's temporaries pass operator new by.) The functions are replaced for the
/// whole program in heap_counter_test.cpp, so tests that count live in this folder.
///
///     HeapCounter counter;
///     model.forward(x);
///     const std::size_t calls = counter.calls();  // before a CHECK, which asks the heap too

#include <cstddef>

namespace attensor_test {

class HeapCounter {
 public:
  HeapCounter();
  ~HeapCounter();
  HeapCounter(const HeapCounter&) = delete;
  HeapCounter& operator=(const HeapCounter&) = delete;

  /// Since construction.
  std::size_t calls() const;
  std::size_t bytes() const;

  /// Whether this program can count: not under a sanitizer, which has an allocator of its own.
  static bool works();
};

}  // namespace attensor_test
