// The backend at hand, guarded memory on it, and tensors there.
// SPDX-License-Identifier: Apache-2.0
#include "support/backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "support/number.hpp"

namespace gpudnn::test {
namespace {

constexpr unsigned char kPoison = 0xff;

// The guard pattern: no two neighbours equal, never the poison.
unsigned char guard_byte(std::size_t i) { return static_cast<unsigned char>(0xa0 + i % 31); }

std::string first_difference(const std::vector<unsigned char>& now, std::size_t i, const char* where) {
  return std::string(where) + " byte " + std::to_string(i) + " became " + std::to_string(now[i]);
}

}  // namespace

std::string take_error_text() {
  char text[2048] = "";
  gpudnnGetLastErrorString(text, sizeof text);
  return text;
}

void require(gpudnnStatus_t status, const char* call) {
  if (status == GPUDNN_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " gave " + gpudnnGetErrorString(status) + ": " + take_error_text());
}

Backend::Backend(bool host_only) {
  const char* old = std::getenv("GPUDNN_BACKEND");
  const std::string kept = old != nullptr ? old : "";
  if (host_only) setenv("GPUDNN_BACKEND", "host", 1);
  const gpudnnStatus_t status = gpudnnCreate(&handle_);
  if (host_only) {
    if (old != nullptr) {
      setenv("GPUDNN_BACKEND", kept.c_str(), 1);
    } else {
      unsetenv("GPUDNN_BACKEND");
    }
  }
  require(status, "gpudnnCreate");
  GPUDNN_TEST_REQUIRE(gpudnnGetBackend(handle_, &kind_));
}

Backend::~Backend() { (void)gpudnnDestroy(handle_); }

Backend& Backend::at_hand() {
  static Backend* const backend = new Backend;  // outlives every test's buffers
  return *backend;
}

Backend& Backend::host() {
  static Backend* const backend = new Backend(true);
  return *backend;
}

GuardedBuffer::GuardedBuffer(const Backend& backend, std::size_t bytes, std::size_t misalignment, bool ends_mapping)
    : backend_(&backend), before_(kGuard + misalignment), bytes_(bytes) {
  if (ends_mapping && backend.is_cuda()) {
    behind_ = 0;
    mapped_ = std::make_unique<MappedMemory>(before_ + bytes);
    base_ = mapped_->end() - bytes - before_;
  } else {
    void* memory = nullptr;
    GPUDNN_TEST_REQUIRE(gpudnnMalloc(backend.handle(), &memory, before_ + bytes + behind_));
    base_ = static_cast<unsigned char*>(memory);
  }
  std::vector<unsigned char> whole(before_ + bytes + behind_, kPoison);
  for (std::size_t i = 0; i < before_; ++i) whole[i] = guard_byte(i);
  for (std::size_t i = 0; i < behind_; ++i) whole[before_ + bytes + i] = guard_byte(i);
  GPUDNN_TEST_REQUIRE(gpudnnMemcpy(backend.handle(), base_, whole.data(), whole.size(), GPUDNN_MEMCPY_HOST_TO_DEVICE));
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : backend_(other.backend_),
      base_(std::exchange(other.base_, nullptr)),
      mapped_(std::move(other.mapped_)),
      before_(other.before_),
      behind_(other.behind_),
      bytes_(std::exchange(other.bytes_, 0)) {}

GuardedBuffer::~GuardedBuffer() {
  if (base_ != nullptr && mapped_ == nullptr) (void)gpudnnFree(backend_->handle(), base_);
}

void* GuardedBuffer::data() const { return bytes_ == 0 ? nullptr : base_ + before_; }

void GuardedBuffer::write(const void* source, std::size_t bytes, std::size_t offset) {
  if (bytes == 0) return;
  GPUDNN_TEST_REQUIRE(
      gpudnnMemcpy(backend_->handle(), base_ + before_ + offset, source, bytes, GPUDNN_MEMCPY_HOST_TO_DEVICE));
}

void GuardedBuffer::read(void* destination, std::size_t bytes, std::size_t offset) const {
  if (bytes == 0) return;
  GPUDNN_TEST_REQUIRE(
      gpudnnMemcpy(backend_->handle(), destination, base_ + before_ + offset, bytes, GPUDNN_MEMCPY_DEVICE_TO_HOST));
}

std::string GuardedBuffer::damage() const {
  std::vector<unsigned char> zone(before_);
  GPUDNN_TEST_REQUIRE(gpudnnMemcpy(backend_->handle(), zone.data(), base_, before_, GPUDNN_MEMCPY_DEVICE_TO_HOST));
  for (std::size_t i = 0; i < before_; ++i) {
    if (zone[i] != guard_byte(i)) return first_difference(zone, i, "the guard before the buffer was written:");
  }
  if (behind_ == 0) return {};
  zone.resize(behind_);
  GPUDNN_TEST_REQUIRE(
      gpudnnMemcpy(backend_->handle(), zone.data(), base_ + before_ + bytes_, behind_, GPUDNN_MEMCPY_DEVICE_TO_HOST));
  for (std::size_t i = 0; i < behind_; ++i) {
    if (zone[i] != guard_byte(i)) return first_difference(zone, i, "the guard behind the buffer was written:");
  }
  return {};
}

std::vector<std::int64_t> element_offsets(const TensorGeometry& geometry) {
  std::int64_t count = geometry.rank > 0 ? 1 : 0;
  for (int i = 0; i < geometry.rank; ++i) count *= geometry.dims[i];
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count));
  std::int64_t index[GPUDNN_DIM_MAX] = {};
  std::int64_t next = 0;
  for (std::int64_t& offset : offsets) {
    offset = next;
    for (int i = geometry.rank - 1; i >= 0; --i) {
      next += geometry.strides[i];
      if (++index[i] < geometry.dims[i]) break;
      next -= geometry.dims[i] * geometry.strides[i];
      index[i] = 0;
    }
  }
  return offsets;
}

namespace {

std::vector<unsigned char> make_image(const TensorGeometry& geometry, const std::vector<double>* values) {
  const std::vector<std::int64_t> offsets = element_offsets(geometry);
  const std::size_t size = element_size(geometry.type);
  const std::int64_t last = offsets.empty() ? -1 : *std::max_element(offsets.begin(), offsets.end());
  std::vector<unsigned char> image(static_cast<std::size_t>(last + 1) * size, kPoison);
  if (values == nullptr) return image;
  if (values->size() != offsets.size()) throw std::logic_error("as many values as elements are needed");
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    encode((*values)[i], geometry.type, &image[static_cast<std::size_t>(offsets[i]) * size]);
  }
  return image;
}

}  // namespace

DeviceTensor::DeviceTensor(const Backend& backend, const TensorGeometry& geometry, const std::vector<double>* values,
                           bool misaligned)
    : geometry_(geometry),
      image_(make_image(geometry, values)),
      buffer_(backend, image_.size(), misaligned ? element_size(geometry.type) : 0) {
  buffer_.write(image_.data(), image_.size());
}

std::vector<unsigned char> DeviceTensor::image() const {
  std::vector<unsigned char> now(image_.size());
  buffer_.read(now.data(), now.size());
  return now;
}

std::vector<double> DeviceTensor::values() const {
  const std::vector<unsigned char> now = image();
  const std::size_t size = element_size(geometry_.type);
  const std::vector<std::int64_t> offsets = element_offsets(geometry_);
  std::vector<double> values(offsets.size());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    values[i] = decode(&now[static_cast<std::size_t>(offsets[i]) * size], geometry_.type);
  }
  return values;
}

std::string DeviceTensor::damage_outside_elements() const {
  if (std::string text = buffer_.damage(); !text.empty()) return text;
  const std::size_t size = element_size(geometry_.type);
  const std::vector<std::int64_t> offsets = element_offsets(geometry_);
  if (offsets.size() * size == image_.size()) return {};  // packed: no gaps
  const std::vector<unsigned char> now = image();
  std::vector<bool> element(now.size());
  for (const std::int64_t offset : offsets) {
    std::fill_n(element.begin() + offset * static_cast<std::int64_t>(size), size, true);
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!element[i] && now[i] != image_[i]) return first_difference(now, i, "a gap between elements was written:");
  }
  return {};
}

std::string DeviceTensor::damage_anywhere() const {
  if (std::string text = buffer_.damage(); !text.empty()) return text;
  const std::vector<unsigned char> now = image();
  if (now == image_) return {};
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] != image_[i]) return first_difference(now, i, "an input was written:");
  }
  return {};
}

}  // namespace gpudnn::test
