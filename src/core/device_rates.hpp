// What a device can do in a second: the only place that knows a rate. Cost models turn work into time by it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gpudnn {

// Of the whole device, as kernels reach them in large operations: not the data sheet's.
struct DeviceRates {
  int multiprocessors = 1;
  double clock = 1e9;            // Hz, under load
  double copy_bytes = 1e11;      // a second of a large copy, read and written bytes together
  double l2_bytes = 1e12;        // a second that loads get from the L2
  double half_flops = 1e12;      // f16 and bf16 products by the device's best matrix instruction
  double tf32_flops = 1e12;      // float products in TF32 by the same
  double mma_half_flops = 1e12;  // f16 and bf16 by mma.sync, which on sm_90 is not the best
  double mma_tf32_flops = 1e12;
  double fma_flops = 1e12;         // float without matrix units
  double launch_seconds = 2.5e-6;  // of a kernel, on the device
};

// What the driver says of a device.
struct DeviceFacts {
  std::string_view name;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 1;
  double clock = 1e9;         // Hz, at the most
  double memory_clock = 1e9;  // Hz
  double bus_bits = 128;      // of the memory
};

// Measured rates of a device known by name, else estimates by compute capability, clock, multiprocessors and bus.
[[nodiscard]] DeviceRates device_rates(const DeviceFacts& facts);

}  // namespace gpudnn
