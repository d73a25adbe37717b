// Small values by key, for queries that no time is left for: what is looked up and what is kept goes through no
// allocator and no lock, whose code and data a first query would fetch from memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <type_traits>

namespace gpudnn {

// Safe from many threads. Nothing is ever dropped; past kMaxChunks, nothing more is kept.
class ValueCache {
 public:
  ValueCache() = default;
  ~ValueCache();
  ValueCache(const ValueCache&) = delete;
  ValueCache& operator=(const ValueCache&) = delete;

  // Makes room for the first entries, so that no call waits for it.
  void reserve();

  // False if there is none. `hash` is the caller's, of the key.
  template <class Key, class Value>
  [[nodiscard]] bool find(std::uint64_t hash, const Key& key, Value* value) const noexcept {
    check<Key, Value>();
    for (const Entry* e = heads_[hash % kHeads].load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (e->hash != hash || std::memcmp(e->key, &key, sizeof key) != 0) continue;
      std::memcpy(static_cast<void*>(value), e->value, sizeof *value);
      return true;
    }
    return false;
  }

  template <class Key, class Value>
  void keep(std::uint64_t hash, const Key& key, const Value& value) {
    check<Key, Value>();
    Entry* const e = take();
    if (e == nullptr) return;
    e->hash = hash;
    std::memcpy(e->key, &key, sizeof key);
    std::memcpy(e->value, static_cast<const void*>(&value), sizeof value);
    std::atomic<const Entry*>& head = heads_[hash % kHeads];
    e->next = head.load(std::memory_order_relaxed);
    while (!head.compare_exchange_weak(e->next, e, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

 private:
  static constexpr std::size_t kKeyBytes = 704;
  static constexpr std::size_t kValueBytes = 48;
  static constexpr std::size_t kHeads = 256;
  static constexpr std::size_t kEntries = 64;  // of a chunk
  static constexpr std::size_t kMaxChunks = 256;

  struct Entry {
    const Entry* next;
    std::uint64_t hash;
    char value[kValueBytes];
    char key[kKeyBytes];
  };
  struct Chunk {
    std::atomic<std::size_t> used{0};
    std::size_t number = 1;
    Chunk* earlier = nullptr;
    Entry entries[kEntries] = {};  // written here, so that the first entry does not wait for its page
  };

  template <class Key, class Value>
  static constexpr void check() {
    static_assert(std::has_unique_object_representations_v<Key> && sizeof(Key) <= kKeyBytes);
    static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= kValueBytes);
  }
  // Null when the cache is full.
  [[nodiscard]] Entry* take();
  [[nodiscard]] Entry* take_of_another();

  std::atomic<Chunk*> chunk_{nullptr};
  std::mutex growing_;
  std::atomic<const Entry*> heads_[kHeads] = {};
};

}  // namespace gpudnn
