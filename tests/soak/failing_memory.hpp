// The program's operator new and delete, which the library uses too: they count what lives, and fail at random where a
// thread asks for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::test {

// While it is on, allocations of threads that are not the soak's own (the library's helpers) fail now and then.
void set_memory_pressure(bool on) noexcept;
// The calling thread is one of the soak's own: its allocations fail in a FailingScope alone.
void protect_this_thread(std::uint64_t seed) noexcept;

// One in `odds` of the thread's allocations fails while the scope lives; 0: none.
class FailingScope {
 public:
  explicit FailingScope(std::uint32_t odds) noexcept;
  ~FailingScope();
  FailingScope(const FailingScope&) = delete;
  FailingScope& operator=(const FailingScope&) = delete;
};

// The calling thread's n-th allocation from now on fails, and no other; 0: none does.
void fail_allocation(std::uint32_t n) noexcept;

struct MemoryCounts {
  std::int64_t blocks = 0;  // that live now
  std::int64_t bytes = 0;
  std::int64_t failed = 0;  // allocations so far
};
[[nodiscard]] MemoryCounts memory_counts() noexcept;

}  // namespace gpudnn::test
