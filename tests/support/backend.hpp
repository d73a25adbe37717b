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
#include "support/number.hpp"

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
  // Whether it is at_hand(), which outlives every test's buffers.
  [[nodiscard]] bool lasts() const { return lasts_; }
  [[nodiscard]] const char* name() const { return is_cuda() ? "CUDA" : "host"; }

 private:
  gpudnnHandle_t handle_ = nullptr;
  bool lasts_ = false;
  gpudnnBackend_t kind_ = GPUDNN_BACKEND_HOST;
};

// Exactly `bytes` bytes of the backend's memory between two guard zones. The payload starts as what is given, else as
// 0xFF bytes, which is a NaN in every floating type. `misalignment` moves it that many bytes off its 256-byte
// alignment. A buffer of a GPU that ends its mapping has a zone behind it only up to the next multiple of
// `end_alignment`: nothing farther can be read.
class GuardedBuffer {
 public:
  GuardedBuffer(const Backend& backend, std::size_t bytes, std::size_t misalignment = 0, bool ends_mapping = false,
                std::size_t end_alignment = 1, const void* payload = nullptr);
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
  // Empty if both guard zones are whole, else what was damaged; the payload too, where one has to be as it was.
  [[nodiscard]] std::string damage(const unsigned char* payload = nullptr) const;

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

// Where a tensor lies in memory: at a multiple of 256 bytes, one element behind one, or as near to the end of what is
// mapped as a multiple of 16 bytes allows (on a GPU; aligned on the host).
enum class Placement { aligned, one_element_off, ends_mapping };
// The place of random case i: two of four are aligned.
[[nodiscard]] constexpr Placement placement_of(int i) {
  return i % 4 == 3 ? Placement::one_element_off : i % 4 == 1 ? Placement::ends_mapping : Placement::aligned;
}
// What a message says behind the configuration that ran there.
[[nodiscard]] constexpr const char* said_of(Placement place) {
  return place == Placement::aligned           ? ": "
         : place == Placement::one_element_off ? " misaligned: "
                                               : " at the end of memory: ";
}

// The bytes of a tensor: its elements by row-major index, and poison (NaN) in every gap. Without values the elements
// are poison too.
struct TensorBytes {
  TensorBytes(const TensorGeometry& geometry, const std::vector<double>* values);

  // The elements of bytes that lie as these do.
  [[nodiscard]] std::vector<double> values_of(const std::vector<unsigned char>& now) const;
  // Empty if the gaps of such bytes are as they were made.
  [[nodiscard]] std::string damage_of_gaps(const std::vector<unsigned char>& now) const;
  [[nodiscard]] bool has_gaps() const { return offsets.size() * element_size(geometry.type) != bytes.size(); }

  TensorGeometry geometry;
  std::vector<std::int64_t> offsets;
  std::vector<unsigned char> bytes;
};

// A tensor on the backend, of an image that others may share.
class DeviceTensor {
 public:
  DeviceTensor(const Backend& backend, std::shared_ptr<const TensorBytes> image, Placement place = Placement::aligned);
  DeviceTensor(const Backend& backend, const TensorGeometry& geometry, const std::vector<double>* values,
               Placement place = Placement::aligned)
      : DeviceTensor(backend, std::make_shared<TensorBytes>(geometry, values), place) {}
  DeviceTensor(const Backend& backend, const TensorGeometry& geometry, const std::vector<double>* values,
               bool misaligned)
      : DeviceTensor(backend, geometry, values, misaligned ? Placement::one_element_off : Placement::aligned) {}

  [[nodiscard]] void* data() const { return buffer_.data(); }
  [[nodiscard]] const TensorGeometry& geometry() const { return made_->geometry; }
  // As it was made.
  void restore() { buffer_.write(made_->bytes.data(), made_->bytes.size()); }
  // The payload's bytes, or the elements, as they are now.
  [[nodiscard]] std::vector<unsigned char> image() const;
  [[nodiscard]] std::vector<double> values() const { return values_of(image()); }
  [[nodiscard]] std::vector<double> values_of(const std::vector<unsigned char>& image) const {
    return made_->values_of(image);
  }
  // Empty if guards and gaps are as they were made (of an input: the elements too).
  [[nodiscard]] std::string damage_outside_elements() const;
  [[nodiscard]] std::string damage_anywhere() const { return buffer_.damage(made_->bytes.data()); }

 private:
  std::shared_ptr<const TensorBytes> made_;  // as uploaded
  GuardedBuffer buffer_;
};

}  // namespace gpudnn::test
