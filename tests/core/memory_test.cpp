// Mirrors include/attensor/core/memory.hpp.

#include "attensor/core/memory.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "support/random_cases.hpp"

using namespace attensor;
using detail::BlockCache;
using detail::SizeClass;

TEST_CASE("SizeClass: holds what was asked for, at most a quarter more, and grows with it") {
  std::size_t last = 0;
  for (std::size_t bytes = 1; bytes < 200000; ++bytes) {
    const std::size_t index = SizeClass::index(bytes), size = SizeClass::bytes(index);
    REQUIRE(size >= bytes);
    REQUIRE(index >= last);
    REQUIRE((bytes <= SizeClass::smallest || 4 * size <= 5 * bytes + 3));
    REQUIRE((index == 0 || SizeClass::bytes(index - 1) < bytes));  // the smallest class that holds it
    last = index;
  }
  for (std::size_t power = 10; power < 55; ++power) {
    for (const std::size_t bytes :
         {(std::size_t{1} << power) - 1, std::size_t{1} << power, (std::size_t{1} << power) + 1}) {
      const std::size_t index = SizeClass::index(bytes);
      CHECK(SizeClass::bytes(index) >= bytes);
      CHECK(SizeClass::bytes(index - 1) < bytes);
    }
  }
}

TEST_CASE("memory: blocks are aligned to 64 bytes and do not overlap") {
  Rng rng(test_seed());
  struct Block {
    unsigned char* data;
    std::size_t size;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  for (int step = 0; step < 4000; ++step) {
    if (blocks.empty() || rng.below(5) < 3) {
      const auto size = static_cast<std::size_t>(random_between(rng, 1, rng.below(10) == 0 ? 300000 : 3000));
      auto* data = static_cast<unsigned char*>(detail::allocate(size));
      REQUIRE(reinterpret_cast<std::uintptr_t>(data) % memory_alignment == 0);
      const auto mark = static_cast<unsigned char>(step);
      std::memset(data, mark, size);
      blocks.push_back({data, size, mark});
    } else {
      const auto i = static_cast<std::size_t>(rng.below(static_cast<Index>(blocks.size())));
      const Block block = blocks[i];
      bool intact = true;
      for (std::size_t j = 0; j < block.size; ++j) intact = intact && block.data[j] == block.mark;
      REQUIRE(intact);
      detail::deallocate(block.data);
      blocks[i] = blocks.back();
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) detail::deallocate(block.data);
}

TEST_CASE("memory: a freed block is the next one of its class, on this thread and on others") {
  release_memory();  // no other block of the class waits
  auto& cache = BlockCache::instance();
  void* first = cache.allocate(70001);
  cache.deallocate(first);
  REQUIRE(cache.allocate(70002) == first);
  void* second = nullptr;
  std::thread([&] {
    cache.deallocate(first);  // freed on another thread
    second = cache.allocate(70003);
  }).join();
  REQUIRE(second == first);
  std::thread([&] { cache.deallocate(second); }).join();
  REQUIRE(cache.allocate(70001) == first);  // a waiting block is found, whichever thread freed it
  cache.deallocate(first);
}

TEST_CASE("memory: what no allocator can give is bad_alloc") {
  CHECK_THROWS_AS(BlockCache::instance().allocate(std::size_t{1} << 62), std::bad_alloc);
  CHECK_THROWS_AS(BlockCache::instance().allocate(~std::size_t{0}), std::bad_alloc);
}

TEST_CASE("memory: nothing is freed twice or lost when threads hand blocks to each other") {
  constexpr int threads = 24;  // more than there are shards
  std::vector<std::atomic<std::uint64_t*>> mailboxes(threads);
  std::atomic<int> wrong{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      Rng rng(test_seed() + static_cast<std::uint64_t>(t));
      for (int step = 0; step < 2000; ++step) {
        const auto count = static_cast<std::size_t>(random_between(rng, 1, 300));
        auto* block = static_cast<std::uint64_t*>(BlockCache::instance().allocate(count * sizeof(std::uint64_t)));
        for (std::size_t i = 0; i < count; ++i) block[i] = count;
        std::uint64_t* other = mailboxes[static_cast<std::size_t>(rng.below(threads))].exchange(block);
        if (!other) continue;
        const std::uint64_t size = other[0];
        for (std::size_t i = 0; i < size; ++i) wrong += other[i] != size;
        BlockCache::instance().deallocate(other);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (auto& mailbox : mailboxes) {
    if (mailbox) BlockCache::instance().deallocate(mailbox);
  }
  CHECK(wrong == 0);
  release_memory();
}

TEST_CASE("release_memory: waiting blocks go, those in use stay") {
  auto* used = static_cast<int*>(BlockCache::instance().allocate(1000));
  *used = 7;
  release_memory();
  CHECK(*used == 7);
  BlockCache::instance().deallocate(used);
  release_memory();
}

TEST_CASE("Scratch: owns an array for a scope, may be moved, and may be empty") {
  detail::Scratch<double> a(100);
  a[99] = 5;
  const double* data = a.data();
  detail::Scratch<double> b = std::move(a);
  CHECK(b.data() == data);
  CHECK(b[99] == 5);
  CHECK(detail::Scratch<float>(0).data() == nullptr);
}

TEST_CASE("CacheAllocator: serves containers and shared pointers") {
  std::vector<double, detail::CacheAllocator<double>> values(1000, 1.5);
  values.resize(3000, 2.5);
  CHECK(values[999] == 1.5);
  CHECK(values[2999] == 2.5);
  const auto shared =
      std::allocate_shared<std::array<int, 3>>(detail::CacheAllocator<int>{}, std::array<int, 3>{1, 2, 3});
  CHECK((*shared)[2] == 3);
}

// A tensor with static storage is destroyed after main, when the cache still has to be there.
namespace {
struct AtExit {
  void* block = detail::allocate(500);
  ~AtExit() {
    detail::deallocate(block);
    detail::deallocate(detail::allocate(500));
  }
} at_exit;
}  // namespace
