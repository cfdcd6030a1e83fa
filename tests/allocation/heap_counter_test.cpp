// The counter itself: its replacements of the C library's functions, and that it sees every way to the heap.

#include "allocation/heap_counter.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "attensor/core/eigen.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATTENSOR_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ATTENSOR_TEST_SANITIZED 1
#endif
#endif
#ifndef ATTENSOR_TEST_SANITIZED
#define ATTENSOR_TEST_SANITIZED 0
#endif

namespace {

std::atomic<int> counters{0};  // that are alive
std::atomic<std::size_t> total_calls{0}, total_bytes{0};

[[maybe_unused]] void count(std::size_t bytes) {
  if (counters.load(std::memory_order_relaxed) == 0) return;
  total_calls.fetch_add(1, std::memory_order_relaxed);
  total_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace

#if defined(__GLIBC__) && !ATTENSOR_TEST_SANITIZED

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  count(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  count(number * bytes);
  return __libc_calloc(number, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  count(bytes);
  return __libc_realloc(block, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count(bytes);
  return __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  count(bytes);
  *block = __libc_memalign(alignment, bytes);
  return *block ? 0 : ENOMEM;
}
void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  count(bytes);
  using Function = void* (*)(void*, std::size_t, int, int, int, off_t);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "mmap"));
  return next(address, bytes, protection, flags, file, offset);
}
}

namespace attensor_test {
bool HeapCounter::works() { return true; }
}  // namespace attensor_test

#else

namespace attensor_test {
bool HeapCounter::works() { return false; }
}  // namespace attensor_test

#endif

namespace attensor_test {

// One counter at a time: totals start anew with each.
HeapCounter::HeapCounter() {
  total_calls = 0;
  total_bytes = 0;
  ++counters;
}
HeapCounter::~HeapCounter() { --counters; }
std::size_t HeapCounter::calls() const { return total_calls; }
std::size_t HeapCounter::bytes() const { return total_bytes; }

}  // namespace attensor_test

using attensor_test::HeapCounter;

namespace {

/// Keeps the compiler from seeing that a block is not used.
void* volatile sink;
void* keep(void* block) {
  sink = block;
  return sink;
}

template <class Body>
std::size_t calls_of(Body&& body) {
  const HeapCounter counter;
  body();
  return counter.calls();
}

}  // namespace

TEST_CASE("heap counter: sees every way to the heap") {
  if (!HeapCounter::works()) return;  // a sanitizer has an allocator of its own
  CHECK(calls_of([] {}) == 0);
  CHECK(calls_of([] { std::free(keep(std::malloc(10))); }) == 1);
  CHECK(calls_of([] { std::free(keep(std::calloc(10, 4))); }) == 1);
  CHECK(calls_of([] { std::free(keep(std::realloc(nullptr, 10))); }) == 1);
  CHECK(calls_of([] { std::free(keep(std::aligned_alloc(64, 128))); }) == 1);
  CHECK(calls_of([] {
          void* block = nullptr;
          CHECK(posix_memalign(&block, 64, 100) == 0);
          CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
          std::free(keep(block));
        }) >= 1);
  CHECK(calls_of([] {
          munmap(keep(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), 4096);
        }) == 1);
  CHECK(calls_of([] { ::operator delete(keep(::operator new(10))); }) == 1);
  CHECK(calls_of([] { ::operator delete(keep(::operator new(10, std::align_val_t{64})), std::align_val_t{64}); }) == 1);
  CHECK(calls_of([] { (void)keep(std::make_unique<int[]>(10).get()); }) == 1);
  CHECK(calls_of([] { (void)keep(Eigen::MatrixXf(10, 10).data()); }) == 1);
}

TEST_CASE("heap counter: counts bytes, on all threads, and only while it lives" *
          doctest::skip(!HeapCounter::works())) {
  std::atomic<bool> go{false};
  std::thread other([&] {
    while (!go) std::this_thread::yield();
    std::free(keep(std::malloc(1000)));
  });
  {
    const HeapCounter counter;
    go = true;
    other.join();
    const std::size_t calls = counter.calls(), bytes = counter.bytes();
    CHECK(calls == 1);
    CHECK(bytes == 1000);
  }
  std::free(keep(std::malloc(500)));
  CHECK(calls_of([] {}) == 0);
}
