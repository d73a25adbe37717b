// The backend at hand, guarded memory on it, and tensors there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "gpudnn/gpudnn.h"
#include "support/mapped_memory.hpp"

namespace gpudnn::test {

// Throws with the call's text and the library's last-error text unless the call succeeded.
void require(gpudnnStatus_t status, const char* call);
#define GPUDNN_TEST_REQUIRE(call) ::gpudnn::test::require((call), #call)

// The last-error text, which the library then forgets.
[[nodiscard]] std::string take_error_text();

// A handle and what it works on.
class Backend {
 public:
  // `host_only` makes the handle under GPUDNN_BACKEND=host.
  explicit Backend(bool host_only = false);
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // The one that gpudnnCreate chooses here, and the host reference; each made once. Call them before starting threads:
  // making the second one changes the environment for a moment.
  static Backend& at_hand();
  static Backend& host();

  [[nodiscard]] gpudnnHandle_t handle() const { return handle_; }
  [[nodiscard]] bool is_cuda() const { return kind_ == GPUDNN_BACKEND_CUDA; }
  [[nodiscard]] gpudnnBackend_t kind() const { return kind_; }
  [[nodiscard]] const char* name() const { return is_cuda() ? "CUDA" : "host"; }

 private:
  gpudnnHandle_t handle_ = nullptr;
  gpudnnBackend_t kind_ = GPUDNN_BACKEND_HOST;
};

// Exactly `bytes` bytes of the backend's memory between two guard zones. The payload starts as 0xFF bytes, which is a
// NaN in every floating type. `misalignment` moves it that many bytes off its 256-byte alignment. A buffer of a GPU
// that ends its mapping has no zone behind it: nothing there can be read.
class GuardedBuffer {
 public:
  GuardedBuffer(const Backend& backend, std::size_t bytes, std::size_t misalignment = 0, bool ends_mapping = false);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(GuardedBuffer&&) = delete;

  // Null for a buffer of no bytes.
  [[nodiscard]] void* data() const;
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void write(const void* source, std::size_t bytes, std::size_t offset = 0);
  void read(void* destination, std::size_t bytes, std::size_t offset = 0) const;
  // Empty if both guard zones are whole, else what was damaged.
  [[nodiscard]] std::string damage() const;

 private:
  static constexpr std::size_t kGuard = 512;

  const Backend* backend_;
  unsigned char* base_ = nullptr;
  std::unique_ptr<MappedMemory> mapped_;
  std::size_t before_ = kGuard;
  std::size_t behind_ = kGuard;
  std::size_t bytes_ = 0;
};

// Offsets of the elements in row-major order of the indices.
[[nodiscard]] std::vector<std::int64_t> element_offsets(const TensorGeometry& geometry);

// A tensor on the backend: its elements by row-major index, with poison in every gap.
class DeviceTensor {
 public:
  // Without values the elements are poison (NaN) too. `misaligned` moves the start by one element.
  DeviceTensor(const Backend& backend, const TensorGeometry& geometry, const std::vector<double>* values,
               bool misaligned = false);

  [[nodiscard]] void* data() const { return buffer_.data(); }
  [[nodiscard]] const TensorGeometry& geometry() const { return geometry_; }
  // The elements as they are now.
  [[nodiscard]] std::vector<double> values() const;
  // The payload's bytes as they are now.
  [[nodiscard]] std::vector<unsigned char> image() const;
  // Empty if guards and gaps are as they were made (of an input: the elements too).
  [[nodiscard]] std::string damage_outside_elements() const;
  [[nodiscard]] std::string damage_anywhere() const;

 private:
  TensorGeometry geometry_;
  std::vector<unsigned char> image_;  // as uploaded
  GuardedBuffer buffer_;
};

}  // namespace gpudnn::test
