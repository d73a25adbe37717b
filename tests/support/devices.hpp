// Devices that tests pretend to have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/described_device.hpp"

namespace gpudnn::test {

// An H200, or a part of one. It has CUDA's first number: what is asked of the driver is asked.
inline Device h200(int multiprocessors = 132) {
  Device device = *described_device("h200");
  device.ordinal = 0;
  device.multiprocessors = multiprocessors;
  device.rates.multiprocessors = multiprocessors;
  return device;
}

}  // namespace gpudnn::test
