// The buffer that a thread keeps.
// SPDX-License-Identifier: Apache-2.0
#include "host/scratch.hpp"

#include <new>
#include <utility>

namespace gpudnn::host {
namespace {

std::byte* allocate(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{Scratch::kAlignment}));
}
void release(std::byte* memory) noexcept { ::operator delete (memory, std::align_val_t{Scratch::kAlignment}); }

struct Kept {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  ~Kept() { release(memory); }
};

thread_local Kept kept;

}  // namespace

// The kept buffer is taken away while it is in use, so an operation inside another one gets memory of its own.
Scratch::Scratch(std::size_t bytes) : bytes_(bytes) {
  if (kept.bytes >= bytes) {
    memory_ = std::exchange(kept.memory, nullptr);
    bytes_ = std::exchange(kept.bytes, 0);
  } else {
    memory_ = allocate(bytes);
  }
  next_ = memory_;
}

Scratch::~Scratch() {
  if (bytes_ > kMaxKept || kept.bytes >= bytes_) {
    release(memory_);
    return;
  }
  release(kept.memory);
  kept.memory = memory_;
  kept.bytes = bytes_;
}

}  // namespace gpudnn::host
