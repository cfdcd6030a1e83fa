#pragma once
/// \file
/// Where elements live: 64-byte aligned blocks from a cache of size classes.
///
/// A step that repeats (an inference, a training step) asks for the same sizes again and again, so a freed block waits
/// in a list of its size class and the next request takes it: after the first step the heap is not asked for anything.
/// Lists are kept in shards, one for a thread as long as there are no more than `shard_count` of them; a block may be
/// freed on any thread, and a shard that has none of a class looks at the others before it asks the heap. Nothing is
/// registered for exit: tensors may be destroyed at any time, also after main.

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>

#include "attensor/core/error.hpp"

namespace attensor::inline ATTENSOR_ISA {

/// Alignment in bytes of every tensor's first element: a cache line, and the widest packet.
inline constexpr std::size_t memory_alignment = 64;

namespace detail {

/// Four classes an octave, so that a block is at most a quarter larger than asked for.
struct SizeClass {
  static constexpr std::size_t smallest = 256;
  static constexpr std::size_t count = 4 * 48;

  static std::size_t index(std::size_t bytes) {
    if (bytes <= smallest) return 0;
    const auto octave = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;  // 2^octave < bytes <= 2^(octave + 1)
    const std::size_t quarter = std::size_t{1} << (octave - 2);
    const std::size_t step = (bytes - (std::size_t{1} << octave) + quarter - 1) / quarter;  // 1..4
    return 4 * (octave - 8) + step;
  }
  static std::size_t bytes(std::size_t index) {
    const std::size_t octave = index / 4 + 8;
    return (std::size_t{1} << octave) + (index % 4) * (std::size_t{1} << (octave - 2));
  }
};

/// In front of each block, on a cache line of its own.
struct alignas(memory_alignment) BlockHeader {
  BlockHeader* next;
  std::size_t size_class;
};

class BlockCache {
 public:
  static BlockCache& instance() {
    static constinit BlockCache cache;
    return cache;
  }

  void* allocate(std::size_t bytes) {
    const std::size_t size_class = SizeClass::index(bytes);
    if (size_class >= SizeClass::count) throw std::bad_alloc();
    const std::size_t own = own_shard();
    for (std::size_t i = 0; i < shard_count; ++i) {
      if (BlockHeader* block = shards_[(own + i) % shard_count].take(size_class)) return block + 1;
    }
    const std::size_t bytes_with_header = sizeof(BlockHeader) + SizeClass::bytes(size_class);
    void* memory = ::operator new(bytes_with_header, std::align_val_t{memory_alignment}, std::nothrow);
    if (!memory) {  // what waits in other classes may be enough
      release();
      memory = ::operator new(bytes_with_header, std::align_val_t{memory_alignment});
    }
    return new (memory) BlockHeader{nullptr, size_class} + 1;
  }

  void deallocate(void* elements) noexcept {
    auto* block = static_cast<BlockHeader*>(elements) - 1;
    shards_[own_shard()].put(block);
  }

  /// Gives all waiting blocks back to the heap.
  void release() noexcept {
    for (Shard& shard : shards_) {
      for (std::size_t size_class = 0; size_class < SizeClass::count; ++size_class) {
        while (BlockHeader* block = shard.take(size_class)) {
          ::operator delete(static_cast<void*>(block), std::align_val_t{memory_alignment});
        }
      }
    }
  }

 private:
  static constexpr std::size_t shard_count = 16;

  struct alignas(memory_alignment) Shard {
    std::mutex mutex;
    std::array<std::atomic<BlockHeader*>, SizeClass::count> free{};

    BlockHeader* take(std::size_t size_class) noexcept {
      if (!free[size_class].load(std::memory_order_relaxed)) return nullptr;  // no lock where there is nothing to take
      const std::lock_guard lock(mutex);
      BlockHeader* block = free[size_class].load(std::memory_order_relaxed);
      if (block) free[size_class].store(block->next, std::memory_order_relaxed);
      return block;
    }
    void put(BlockHeader* block) noexcept {
      const std::lock_guard lock(mutex);
      block->next = free[block->size_class].load(std::memory_order_relaxed);
      free[block->size_class].store(block, std::memory_order_relaxed);
    }
  };

  std::size_t own_shard() noexcept {
    static thread_local std::size_t shard = next_shard_.fetch_add(1, std::memory_order_relaxed) % shard_count;
    return shard;
  }

  std::array<Shard, shard_count> shards_{};
  std::atomic<std::size_t> next_shard_{0};
};

/// At least `bytes` bytes, aligned to memory_alignment. Under AddressSanitizer each block comes from the heap, so that
/// a use after free is seen.
inline void* allocate(std::size_t bytes) {
#ifdef ATTENSOR_ADDRESS_SANITIZER
  return ::operator new(bytes, std::align_val_t{memory_alignment});
#else
  return BlockCache::instance().allocate(bytes);
#endif
}

inline void deallocate(void* elements) noexcept {
  if (!elements) return;
#ifdef ATTENSOR_ADDRESS_SANITIZER
  ::operator delete(elements, std::align_val_t{memory_alignment});
#else
  BlockCache::instance().deallocate(elements);
#endif
}

/// An array without values, for the length of a scope: what a kernel packs into or keeps in between.
template <class T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit Scratch(Index count) {
    constexpr Index most = std::numeric_limits<Index>::max() / static_cast<Index>(sizeof(T));
    if (count < 0 || count > most) throw std::bad_alloc();
    if (count > 0) data_.reset(static_cast<T*>(allocate(static_cast<std::size_t>(count) * sizeof(T))));
  }

  T* data() const { return data_.get(); }
  T& operator[](Index i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* data) const noexcept { deallocate(data); }
  };
  std::unique_ptr<T, Free> data_;
};

/// For standard containers and shared pointers.
template <class T>
struct CacheAllocator {
  using value_type = T;

  CacheAllocator() = default;
  template <class U>
  CacheAllocator(const CacheAllocator<U>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(detail::allocate(count * sizeof(T))); }
  void deallocate(T* data, std::size_t) noexcept { detail::deallocate(data); }
  bool operator==(const CacheAllocator&) const = default;
};

}  // namespace detail

/// Gives the memory that waits to be used again back to the heap. Tensors that exist keep theirs.
inline void release_memory() noexcept { detail::BlockCache::instance().release(); }

}  // namespace attensor::inline ATTENSOR_ISA
