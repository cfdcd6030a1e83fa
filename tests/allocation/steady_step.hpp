#pragma once
/// \file
/// What "a steady-state step takes nothing from the heap" means in a test.

#include <doctest/doctest.h>

#include "allocation/heap_counter.hpp"
#include "attensor/core/parallel.hpp"

namespace attensor_test {

/// How often a few runs of `step` ask the heap.
template <class Step>
std::size_t heap_calls(Step&& step) {
  const HeapCounter counter;
  for (int i = 0; i < 3; ++i) step();
  return counter.calls();
}

/// At one thread, `step` asks the heap for nothing from its fourth run on. At several, how many tasks hold their scratch memory
/// at once is up to the scheduler, so the memory of a step may grow until tasks have overlapped in each way that they can:
/// there it has to come to rest, and stay there for as many runs again.
template <class Step>
void check_steady(Step&& step) {
  if (!HeapCounter::works()) return;  // a sanitizer has an allocator of its own
  attensor::set_num_threads(1);
  for (int i = 0; i < 3; ++i) step();
  const std::size_t calls = heap_calls(step);  // doctest asks the heap too
  CHECK(calls == 0);
  for (const int threads : {2, 3}) {
    attensor::set_num_threads(threads);
    int rounds = 0, quiet = 0;
    for (; rounds < 40 && quiet < 4; ++rounds) quiet = heap_calls(step) == 0 ? quiet + 1 : 0;
    CAPTURE(threads);
    CAPTURE(rounds);
    CHECK(quiet == 4);
  }
  attensor::set_num_threads(0);
}

}  // namespace attensor_test
