// Halves in device memory, more of them than the host could hold at hand: single elements are written and read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "support/backend.hpp"
#include "support/number.hpp"

namespace gpudnn::test {

class LargeHalves {
 public:
  // A multiple of 8 of them; data() is null where the device has not that much memory.
  LargeHalves(const Backend& backend, std::int64_t count) : backend_(backend), count_(count) {
    if (gpudnnMalloc(backend.handle(), &data_, 2 * static_cast<std::size_t>(count)) == GPUDNN_STATUS_SUCCESS) return;
    data_ = nullptr;
    (void)take_error_text();
  }
  ~LargeHalves() { (void)gpudnnFree(backend_.handle(), data_); }
  LargeHalves(const LargeHalves&) = delete;
  LargeHalves& operator=(const LargeHalves&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  void write(std::int64_t at, double value) {
    unsigned char bytes[2] = {};
    encode(value, GPUDNN_DATA_HALF, bytes);
    GPUDNN_TEST_REQUIRE(
        gpudnnMemcpy(backend_.handle(), static_cast<char*>(data_) + 2 * at, bytes, 2, GPUDNN_MEMCPY_HOST_TO_DEVICE));
  }
  [[nodiscard]] double read(std::int64_t at) const {
    unsigned char bytes[2] = {};
    GPUDNN_TEST_REQUIRE(gpudnnMemcpy(backend_.handle(), bytes, static_cast<const char*>(data_) + 2 * at, 2,
                                     GPUDNN_MEMCPY_DEVICE_TO_HOST));
    return decode(bytes, GPUDNN_DATA_HALF);
  }
  void set_all(double value) {
    constexpr int kRow = 8;
    const int dims[] = {static_cast<int>(count_ / kRow), kRow};
    const int strides[] = {kRow, 1};
    const auto one = static_cast<float>(value);
    gpudnnTensorDescriptor_t rows = nullptr;
    GPUDNN_TEST_REQUIRE(gpudnnCreateTensorDescriptor(&rows));
    GPUDNN_TEST_REQUIRE(gpudnnSetTensorNdDescriptor(rows, GPUDNN_DATA_HALF, 2, dims, strides));
    GPUDNN_TEST_REQUIRE(gpudnnSetTensor(backend_.handle(), rows, data_, &one));
    GPUDNN_TEST_REQUIRE(gpudnnDestroyTensorDescriptor(rows));
  }

 private:
  const Backend& backend_;
  std::int64_t count_;
  void* data_ = nullptr;
};

}  // namespace gpudnn::test
