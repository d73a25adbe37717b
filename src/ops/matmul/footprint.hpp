// The footprint of a matrix product in tiles, for the cost model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/cost_model.hpp"
#include "core/device.hpp"

namespace gpudnn::matmul {

// What multiplies.
enum class Unit : std::int32_t { fma_f32, fma_f64, tensor_f16, tensor_tf32, tensor_8bit };

[[nodiscard]] inline double flops_rate(Unit unit, const DeviceRates& rates) noexcept {
  switch (unit) {
    case Unit::fma_f64:
      return rates.fma_flops / 2;
    case Unit::tensor_f16:
      return rates.half_flops;
    case Unit::tensor_tf32:
      return rates.tf32_flops;
    case Unit::tensor_8bit:
      return 2 * rates.half_flops;
    default:
      return rates.fma_flops;
  }
}

// `tiles` work tiles, up to `resident` at once on a multiprocessor, that do `flops` operations together and read
// `l2_bytes`; each takes `tile_seconds` beyond its products.
[[nodiscard]] inline Footprint footprint_of_tiles(Unit unit, const DeviceRates& rates, double tiles, double resident,
                                                  double flops, double l2_bytes, double tile_seconds) noexcept {
  Footprint f;
  f.tiles = tiles;
  f.resident = resident;
  f.flops = flops / tiles;
  f.flops_rate = flops_rate(unit, rates);
  f.l2_bytes = l2_bytes / tiles;
  f.tile_seconds = tile_seconds;
  return f;
}

}  // namespace gpudnn::matmul
