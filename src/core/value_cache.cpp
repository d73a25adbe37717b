// Small values by key.
// SPDX-License-Identifier: Apache-2.0
#include "core/value_cache.hpp"

namespace gpudnn {

ValueCache::~ValueCache() {
  Chunk* chunk = chunk_.load(std::memory_order_acquire);
  while (chunk != nullptr) {
    Chunk* const earlier = chunk->earlier;
    delete chunk;
    chunk = earlier;
  }
}

void ValueCache::reserve() {
  const std::lock_guard lock(growing_);
  if (chunk_.load(std::memory_order_relaxed) == nullptr) chunk_.store(new Chunk, std::memory_order_release);
}

[[gnu::hot]] ValueCache::Entry* ValueCache::take() {
  Chunk* const chunk = chunk_.load(std::memory_order_acquire);
  if (chunk != nullptr) {
    const std::size_t at = chunk->used.fetch_add(1, std::memory_order_relaxed);
    if (at < kEntries) return &chunk->entries[at];
  }
  return take_of_another();
}

ValueCache::Entry* ValueCache::take_of_another() {
  const std::lock_guard lock(growing_);
  Chunk* chunk = chunk_.load(std::memory_order_relaxed);
  if (chunk == nullptr || chunk->used.load(std::memory_order_relaxed) >= kEntries) {
    if (chunk != nullptr && chunk->number >= kMaxChunks) {
      chunk->used.store(kEntries, std::memory_order_relaxed);  // which must not overflow
      return nullptr;
    }
    Chunk* const another = new Chunk;
    another->number = chunk != nullptr ? chunk->number + 1 : 1;
    another->earlier = chunk;
    chunk_.store(another, std::memory_order_release);
    chunk = another;
  }
  const std::size_t at = chunk->used.fetch_add(1, std::memory_order_relaxed);
  return at < kEntries ? &chunk->entries[at] : nullptr;
}

}  // namespace gpudnn
