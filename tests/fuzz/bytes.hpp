// The input of a fuzz target, taken a number at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpudnn::fuzz {

// Numbers of two bytes of the input; zeros behind its end.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::uint32_t next(std::uint32_t below) {
    std::uint32_t value = 0;
    for (int i = 0; i < 2; ++i) value = value * 256 + (at_ < size_ ? data_[at_++] : 0u);
    return below == 0 ? value : value % below;
  }
  [[nodiscard]] bool empty() const { return at_ >= size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace gpudnn::fuzz
