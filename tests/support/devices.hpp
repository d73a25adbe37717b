// Devices that tests pretend to have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device.hpp"

namespace gpudnn::test {

// An H200, or a part of one.
inline Device h200(int multiprocessors = 132) {
  Device device;
  device.backend = GPUDNN_BACKEND_CUDA;
  device.ordinal = 0;
  device.major = 9;
  device.multiprocessors = multiprocessors;
  device.shared_memory_per_block = 232448;
  device.shared_memory_per_multiprocessor = 233472;
  device.l2_bytes = std::size_t{50} << 20;
  device.name = "NVIDIA H200";
  device.rates = device_rates({device.name, 9, 0, 132, 1.98e9, 3.2e9, 6144});
  device.rates.multiprocessors = multiprocessors;
  return device;
}

}  // namespace gpudnn::test
