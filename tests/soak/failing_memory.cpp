// The program's operator new and delete, which the library uses too: they count what lives, and fail at random where a
// thread asks for it.
// SPDX-License-Identifier: Apache-2.0
#include "soak/failing_memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace gpudnn::test {
namespace {

constexpr std::uint32_t kHelpersOdds = 500;

std::atomic<bool> pressure{false};
std::atomic<std::int64_t> blocks{0};
std::atomic<std::int64_t> bytes{0};
std::atomic<std::int64_t> failed{0};
std::atomic<std::uint64_t> next_seed{0x9e3779b97f4a7c15};

// Plain words: operator new may run before any constructor of the thread.
thread_local bool is_own = false;
thread_local std::uint32_t own_odds = 0;
thread_local std::uint32_t until_failure = 0;
thread_local std::uint64_t state = 0;

bool fails() noexcept {
  if (until_failure != 0 && --until_failure == 0) {
    failed.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  std::uint32_t odds = own_odds;
  if (!is_own) odds = pressure.load(std::memory_order_relaxed) ? kHelpersOdds : 0;
  if (odds == 0) return false;
  if (state == 0) state = next_seed.fetch_add(0x632be59bd9b4e019, std::memory_order_relaxed) | 1;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  if ((state >> 32) % odds != 0) return false;
  failed.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (fails()) return nullptr;
  void* block = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    block = std::malloc(std::max<std::size_t>(size, 1));
  } else if (posix_memalign(&block, alignment, std::max<std::size_t>(size, 1)) != 0) {
    return nullptr;
  }
  if (block == nullptr) return nullptr;
  blocks.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(static_cast<std::int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
  return block;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* const block = allocate(size, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) noexcept {
  if (block == nullptr) return;
  blocks.fetch_sub(1, std::memory_order_relaxed);
  bytes.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
  std::free(block);
}

}  // namespace

void set_memory_pressure(bool on) noexcept { pressure.store(on); }

void protect_this_thread(std::uint64_t seed) noexcept {
  is_own = true;
  state = seed * 0x9e3779b97f4a7c15 | 1;
}

FailingScope::FailingScope(std::uint32_t odds) noexcept { own_odds = odds; }
FailingScope::~FailingScope() { own_odds = 0; }

void fail_allocation(std::uint32_t n) noexcept { until_failure = n; }

MemoryCounts memory_counts() noexcept { return {blocks.load(), bytes.load(), failed.load()}; }

}  // namespace gpudnn::test

using gpudnn::test::allocate;
using gpudnn::test::allocate_or_throw;
using gpudnn::test::release;

void* operator new(std::size_t size) { return allocate_or_throw(size, 0); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size) { return allocate_or_throw(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete[](void* block, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { release(block); }
