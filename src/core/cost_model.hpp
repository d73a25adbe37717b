// What a configuration of a kernel costs, and what that means in seconds on a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/device.hpp"

namespace gpudnn {

// What multiplies.
enum class Unit : std::int32_t { fma_f32, fma_f64, tensor_f16, tensor_tf32, tensor_8bit };

// What a device can do at most, measured where its name is known, else from its architecture's figures.
struct DeviceRates {
  double copy_bytes = 0;  // a second, read and written
  double l2_bytes = 0;
  double launch_seconds = 0;  // from the start of a kernel to the end of one that does nothing
  double flops[5] = {};       // by Unit
};
[[nodiscard]] DeviceRates rates_of(const Device& device) noexcept;

// The work of one configuration.
struct Footprint {
  std::int64_t tiles = 1;
  int tiles_per_multiprocessor = 1;  // at work at one time
  Unit unit = Unit::fma_f32;
  double flops = 0;  // of whole tiles: what lies beyond the edges counts
  double dram_bytes = 0;
  double l2_bytes = 0;
  int launches = 1;
  double efficiency = 1;    // share of the unit's rate that a full device reaches
  double tile_seconds = 0;  // of a tile beyond its operations: the start of its pipeline and its epilogue
};

// Seconds: operations in whole waves of tiles, or the bytes, whichever takes longer, and the launches.
[[nodiscard]] double estimate(const Footprint& footprint, const Device& device) noexcept;

}  // namespace gpudnn
