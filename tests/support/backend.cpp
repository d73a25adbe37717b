// The backend at hand, guarded memory on it, and tensors there.
// SPDX-License-Identifier: Apache-2.0
#include "support/backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
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

// What buffers of Backend::at_hand() gave back, by its exact size: the cases of engines take the same sizes again and
// again, and to allocate and free them takes longer than kernels do, above all where processes share a GPU.
template <class Memory>
class Spare {
 public:
  // An empty one where there is none.
  Memory take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(bytes);
    if (found == kept_.end()) return Memory{};
    Memory memory = std::move(found->second);
    kept_.erase(found);
    all_ -= bytes;
    return memory;
  }
  // Ends others first where they are too many.
  template <class End>
  void give(Memory memory, std::size_t bytes, End end) {
    constexpr std::size_t kBytesAtOnce = std::size_t{1} << 29;
    constexpr std::size_t kCount = 64;
    const std::lock_guard lock(mutex_);
    if (all_ + bytes > kBytesAtOnce || kept_.size() >= kCount) {
      for (auto& [size, old] : kept_) end(std::move(old));
      kept_.clear();
      all_ = 0;
    }
    if (bytes > kBytesAtOnce) return end(std::move(memory));
    kept_.emplace(bytes, std::move(memory));
    all_ += bytes;
  }

 private:
  std::mutex mutex_;
  std::multimap<std::size_t, Memory> kept_;
  std::size_t all_ = 0;
};
Spare<void*>& spare_memory() {
  static auto* const spare = new Spare<void*>;  // outlives every test's buffers
  return *spare;
}
Spare<std::unique_ptr<MappedMemory>>& spare_mappings() {
  static auto* const spare = new Spare<std::unique_ptr<MappedMemory>>;
  return *spare;
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
  static Backend* const backend = [] {
    auto* const made = new Backend;
    made->lasts_ = true;
    return made;
  }();
  return *backend;
}

Backend& Backend::host() {
  static Backend* const backend = new Backend(true);
  return *backend;
}

GuardedBuffer::GuardedBuffer(const Backend& backend, std::size_t bytes, std::size_t misalignment, bool ends_mapping,
                             std::size_t end_alignment, const void* payload)
    : backend_(&backend), before_(kGuard + misalignment), bytes_(bytes) {
  if (ends_mapping && backend.is_cuda()) {
    behind_ = (end_alignment - bytes % end_alignment) % end_alignment;
    mapped_ = spare_mappings().take(before_ + bytes + behind_);
    if (mapped_ == nullptr) mapped_ = std::make_unique<MappedMemory>(before_ + bytes + behind_);
    base_ = mapped_->end() - behind_ - bytes - before_;
  } else {
    void* memory = backend.lasts() ? spare_memory().take(before_ + bytes + behind_) : nullptr;
    if (memory == nullptr) GPUDNN_TEST_REQUIRE(gpudnnMalloc(backend.handle(), &memory, before_ + bytes + behind_));
    base_ = static_cast<unsigned char*>(memory);
  }
  std::vector<unsigned char> whole(before_ + bytes + behind_, kPoison);
  if (payload != nullptr) std::memcpy(whole.data() + before_, payload, bytes);
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
  if (base_ == nullptr) return;
  const auto free = [handle = backend_->handle()](void* memory) { (void)gpudnnFree(handle, memory); };
  const std::size_t bytes = before_ + bytes_ + behind_;
  if (mapped_ != nullptr) {
    spare_mappings().give(std::move(mapped_), bytes, [](auto) {});
  } else if (backend_->lasts()) {
    spare_memory().give(base_, bytes, free);
  } else {
    free(base_);
  }
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

std::string GuardedBuffer::damage(const unsigned char* payload) const {
  // Copies cost more than bytes do: a small payload comes along with its zones.
  constexpr std::size_t kSmall = std::size_t{1} << 16;
  const bool at_once = payload != nullptr || bytes_ <= kSmall;
  std::vector<unsigned char> before(before_ + (at_once ? bytes_ + behind_ : 0));
  GPUDNN_TEST_REQUIRE(
      gpudnnMemcpy(backend_->handle(), before.data(), base_, before.size(), GPUDNN_MEMCPY_DEVICE_TO_HOST));
  std::vector<unsigned char> behind(behind_);
  if (at_once) {
    std::copy(before.end() - static_cast<std::ptrdiff_t>(behind_), before.end(), behind.begin());
  } else if (behind_ > 0) {
    GPUDNN_TEST_REQUIRE(gpudnnMemcpy(backend_->handle(), behind.data(), base_ + before_ + bytes_, behind_,
                                     GPUDNN_MEMCPY_DEVICE_TO_HOST));
  }
  for (std::size_t i = 0; i < before_; ++i) {
    if (before[i] != guard_byte(i)) return first_difference(before, i, "the guard before the buffer was written:");
  }
  for (std::size_t i = 0; i < behind_; ++i) {
    if (behind[i] != guard_byte(i)) return first_difference(behind, i, "the guard behind the buffer was written:");
  }
  if (payload == nullptr || std::memcmp(before.data() + before_, payload, bytes_) == 0) return {};
  before.erase(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(before_));
  std::size_t i = 0;
  while (before[i] == payload[i]) ++i;
  return first_difference(before, i, "an input was written:");
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

TensorBytes::TensorBytes(const TensorGeometry& of, const std::vector<double>* values)
    : geometry(of), offsets(element_offsets(of)) {
  const std::size_t size = element_size(geometry.type);
  const std::int64_t last = offsets.empty() ? -1 : *std::max_element(offsets.begin(), offsets.end());
  bytes.assign(static_cast<std::size_t>(last + 1) * size, kPoison);
  if (values == nullptr) return;
  if (values->size() != offsets.size()) throw std::logic_error("as many values as elements are needed");
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    encode((*values)[i], geometry.type, &bytes[static_cast<std::size_t>(offsets[i]) * size]);
  }
}

std::vector<double> TensorBytes::values_of(const std::vector<unsigned char>& now) const {
  const std::size_t size = element_size(geometry.type);
  std::vector<double> values(offsets.size());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    values[i] = decode(&now[static_cast<std::size_t>(offsets[i]) * size], geometry.type);
  }
  return values;
}

std::string TensorBytes::damage_of_gaps(const std::vector<unsigned char>& now) const {
  const std::size_t size = element_size(geometry.type);
  std::vector<bool> element(now.size());
  for (const std::int64_t offset : offsets) {
    std::fill_n(element.begin() + offset * static_cast<std::int64_t>(size), size, true);
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!element[i] && now[i] != bytes[i]) return first_difference(now, i, "a gap between elements was written:");
  }
  return {};
}

DeviceTensor::DeviceTensor(const Backend& backend, std::shared_ptr<const TensorBytes> image, Placement place)
    : made_(std::move(image)),
      buffer_(backend, made_->bytes.size(), place == Placement::one_element_off ? element_size(geometry().type) : 0,
              place == Placement::ends_mapping, 16, made_->bytes.data()) {}

std::vector<unsigned char> DeviceTensor::image() const {
  std::vector<unsigned char> now(made_->bytes.size());
  buffer_.read(now.data(), now.size());
  return now;
}

std::string DeviceTensor::damage_outside_elements() const {
  std::string text = buffer_.damage();
  return text.empty() && made_->has_gaps() ? made_->damage_of_gaps(image()) : text;
}

}  // namespace gpudnn::test
