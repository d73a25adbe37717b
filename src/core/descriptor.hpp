// What handles and descriptors have in common: a type cookie, and memory that stays readable after destruction, so that
// a null, destroyed or wrong-type pointer is told apart from a live one without touching memory that is not ours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "core/error.hpp"

namespace gpudnn {

// The cookie of each kind of object behind an opaque pointer of the interface.
enum class Kind : std::uint64_t {
  destroyed = 0x6770646e64656164,  // "gpdndead"
  handle = 0x6770646e68616e64,
  tensor = 0x6770646e74656e73,
  filter = 0x6770646e66696c74,
  convolution = 0x6770646e636f6e76,
  pooling = 0x6770646e706f6f6c,
  activation = 0x6770646e61637469,
  op_tensor = 0x6770646e6f707465,
  dropout = 0x6770646e64726f70,
  spatial_transformer = 0x6770646e73707466,
  ctc_loss = 0x6770646e6374636c,
  lrn = 0x6770646e6c726e20,
  reduce_tensor = 0x6770646e72656475,
  tensor_transform = 0x6770646e7472616e,
  seq_data = 0x6770646e73657164,
  attn = 0x6770646e6174746e,
  fused_const_pack = 0x6770646e66636e73,
  fused_variant_pack = 0x6770646e66766172,
  fused_plan = 0x6770646e66706c61,
  backend = 0x6770646e6261636b,
};
[[nodiscard]] const char* kind_name(Kind kind) noexcept;

struct Object {
  Kind kind;
};

// Memory for objects of one type. Slots are recycled first-in first-out and never go back to the system: reading the
// cookie of a destroyed object is always safe, and a stale pointer is recognised until its slot is used again, which
// the queue delays.
template <class T>
class Pool {
 public:
  static T* create() {
    Pool& pool = instance();
    void* slot = nullptr;
    {
      const std::lock_guard lock(pool.mutex_);
      if (pool.free_count_ <= kKeepFree) pool.grow();
      slot = pool.pop();
    }
    try {
      return ::new (slot) T();
    } catch (...) {  // out of memory: the slot is free again
      const std::lock_guard lock(pool.mutex_);
      pool.push(slot);
      throw;
    }
  }

  static void destroy(T* object) noexcept {
    object->~T();
    Pool& pool = instance();
    const std::lock_guard lock(pool.mutex_);
    pool.push(object);
  }

 private:
  static constexpr std::size_t kSlab = 64;
  static constexpr std::size_t kKeepFree = 32;

  // What a free slot holds: the cookie of a destroyed object, and the queue's link.
  struct FreeSlot : Object {
    FreeSlot* next;
  };
  static_assert(sizeof(T) >= sizeof(FreeSlot), "a free slot must hold the link");
  static_assert(alignof(T) >= alignof(FreeSlot), "a free slot must hold the link");
  struct alignas(T) Slot {
    unsigned char bytes[sizeof(T)];
  };

  static Pool& instance() {
    static Pool* const pool = new Pool;  // never destroyed: objects may outlive the program's statics
    return *pool;
  }

  void push(void* slot) noexcept {
    auto* const free_slot = ::new (slot) FreeSlot{{Kind::destroyed}, nullptr};
    (last_ != nullptr ? last_->next : first_) = free_slot;
    last_ = free_slot;
    ++free_count_;
  }

  void* pop() noexcept {
    FreeSlot* const slot = first_;
    first_ = slot->next;
    if (first_ == nullptr) last_ = nullptr;
    --free_count_;
    return slot;
  }

  void grow() {
    slabs_.push_back(std::make_unique<Slot[]>(kSlab));
    for (std::size_t i = 0; i < kSlab; ++i) push(&slabs_.back()[i]);
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot[]>> slabs_;
  FreeSlot* first_ = nullptr;
  FreeSlot* last_ = nullptr;
  std::size_t free_count_ = 0;
};

// Refuses unless `object` is a live object of the kind; `argument` names it in the text.
[[nodiscard]] Status check_object(const void* object, Kind kind, const char* argument) noexcept;

// Creates into *out. `argument` names `out` in the text.
template <class T>
[[nodiscard]] Status create_object(T** out, const char* argument) {
  if (out == nullptr)
    return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%s is null; pass the address of a variable", argument);
  *out = nullptr;
  *out = Pool<T>::create();
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn

// Refuses unless `object` is live and of the kind; the text names the variable.
#define GPUDNN_CHECK_OBJECT(object, kind) GPUDNN_TRY(::gpudnn::check_object((object), (kind), #object))
#define GPUDNN_CHECK_POINTER(pointer) \
  GPUDNN_REQUIRE((pointer) != nullptr, GPUDNN_STATUS_BAD_PARAM, "%s is null; it must point to memory", #pointer)
