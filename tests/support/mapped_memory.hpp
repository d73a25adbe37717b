// Device memory that ends where its mapping ends: a kernel that reads or writes a byte beyond it faults. CUDA alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace gpudnn::test {

class MappedMemory {
 public:
  // At least so many bytes, on device 0.
  explicit MappedMemory(std::size_t bytes);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  // The first address that is not mapped.
  [[nodiscard]] unsigned char* end() const { return start_ + mapped_; }

 private:
  unsigned char* start_ = nullptr;
  std::size_t mapped_ = 0;
  std::size_t reserved_ = 0;
};

}  // namespace gpudnn::test
