// The plans that a handle has made, by problem. Problems are plain data without padding, so their bytes are the key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace gpudnn {

// Of keys of hundreds of bytes, at every call.
[[nodiscard]] std::uint64_t hash_bytes(std::string_view bytes);

class PlanCache {
 public:
  // The plan under `key`, or null. Safe from many threads.
  template <class Plan, class Key>
  [[nodiscard]] std::shared_ptr<const Plan> find(const Key& key) const {
    return std::static_pointer_cast<const Plan>(find_bytes(bytes_of(key)));
  }

  // Keeps `plan` under `key`; of two threads that made one, the first to arrive wins. Returns the one kept.
  template <class Plan, class Key>
  std::shared_ptr<const Plan> keep(const Key& key, const std::shared_ptr<const Plan>& plan) {
    return std::static_pointer_cast<const Plan>(keep_bytes(bytes_of(key), plan));
  }

  // Drops the plans under keys of this type for which `outdated(key)`; callers that hold one keep it. The type's first
  // field must tell its operation, as all keys of one size come by.
  template <class Key, class Predicate>
  void forget(Predicate outdated) {
    const std::unique_lock lock(mutex_);
    std::erase_if(plans_, [&](const auto& entry) {
      if (entry.first.size() != sizeof(Key)) return false;
      Key key;
      std::memcpy(static_cast<void*>(&key), entry.first.data(), sizeof key);
      return outdated(key);
    });
  }

 private:
  // One code for all types of plans: a first query fetches it from memory.
  [[nodiscard]] std::shared_ptr<const void> find_bytes(std::string_view key) const;
  std::shared_ptr<const void> keep_bytes(std::string_view key, const std::shared_ptr<const void>& plan);

  // Not noexcept: libstdc++ then keeps the hash in each node, where it would work it out anew for each that it passes.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view bytes) const { return hash_bytes(bytes); }
  };

  // Keys of different operations start with different tags, so one map serves all.
  template <class Key>
  static std::string_view bytes_of(const Key& key) noexcept {
    static_assert(std::has_unique_object_representations_v<Key>,
                  "a key must have no padding and no floating-point field");
    return {reinterpret_cast<const char*>(&key), sizeof key};
  }

  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const void>, Hash, std::equal_to<>> plans_;
};

}  // namespace gpudnn
