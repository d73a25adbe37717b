// Memory that a host operation needs while it runs, from a buffer that its thread keeps for the next one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpudnn::host {

// How many parts of a size cover a positive count, and the count that they have room for.
[[nodiscard]] constexpr std::int64_t parts_of(std::int64_t count, std::int64_t part) noexcept {
  return (count - 1) / part + 1;
}
[[nodiscard]] constexpr std::int64_t rounded_up(std::int64_t count, std::int64_t part) noexcept {
  return (count + part - 1) / part * part;
}
// At least `count` elements in an odd number of cache lines: rows so far apart spread over all sets of a cache.
template <class T>
[[nodiscard]] constexpr std::int64_t odd_lines(std::int64_t count) noexcept {
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  return ((count + kLine - 1) / kLine | 1) * kLine;
}

// One allocation, handed out in pieces; not initialized. Of what is freed a thread keeps one buffer of up to kMaxKept
// bytes: large buffers come from the system, which clears every page of them anew.
class Scratch {
 public:
  static constexpr std::size_t kMaxKept = std::size_t{8} << 20;
  static constexpr std::size_t kAlignment = 64;

  // Room for pieces whose sizes, each rounded up by bytes_of, add up to `bytes`.
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  [[nodiscard]] static constexpr std::size_t bytes_of(std::int64_t count) noexcept {
    return (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  template <class T>
  [[nodiscard]] T* take(std::int64_t count) noexcept {
    std::byte* const piece = next_;
    next_ += bytes_of<T>(count);
    return reinterpret_cast<T*>(piece);
  }

 private:
  std::byte* memory_ = nullptr;
  std::byte* next_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace gpudnn::host
