// The cost model: from the footprint of a config, which its engine states, and the rates of a device to seconds.
//
// A kernel runs work tiles (output tiles, times the splits of the reduction) in waves. In a wave each multiprocessor
// works on up to `resident` tiles at once; a tile's reduction is a loop over k tiles, each of which takes the longest
// of its products, its bytes from the L2 and its counted cycles. No kernel is faster than its bytes from memory. A
// split reduction writes its partial sums and reads them again in a second kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device_rates.hpp"

namespace gpudnn {

// All counts are of one kernel. What an engine leaves at zero costs nothing.
struct Footprint {
  // --- work tiles
  double tiles = 1;     // with those of all splits
  double slots = 0;     // that run at once, one a multiprocessor; 0: as many as there are multiprocessors
  double resident = 1;  // thread blocks that a multiprocessor holds
  double k_tiles = 1;   // of a work tile, as many as the longest has
  // With too few warps, latencies show: a multiprocessor runs at min(1, w / (w + latency_warps) * (16 + latency_warps)
  // / 16) of its rate with w warps.
  double warps = 16;  // of a thread block
  double latency_warps = 0;

  // --- a k tile
  double flops = 0;
  double flops_rate = 1e12;  // of the device, one of DeviceRates
  double efficiency = 1;     // share of flops_rate in a long reduction
  double l2_bytes = 0;
  double l2_efficiency = 1;   // share of the L2's rate
  double cycles = 0;          // of shared memory or issue slots; half of them hide behind the products
  double tma_cycles = 0;      // of TMA for the rows of its boxes, beside all else
  double k_tile_latency = 0;  // seconds that a k tile takes at the least, alone on its multiprocessor

  // --- a work tile, a wave and the whole
  double tile_seconds = 0;      // outside of the reduction: barriers, pipeline fill
  double store_bytes = 0;       // of the epilogue
  double store_rate = 2.3;      // of it, times the copy rate: the L2 takes it
  bool store_overlaps = false;  // with the next tile's products
  double wave_seconds = 0;      // that do not hide behind the memory's
  double dram_bytes = 0;
  double shown = 0;           // share of the shorter of products and memory that adds to the longer
  double start_seconds = 0;   // beyond a launch
  double partial_bytes = 0;   // of sums, written and read once more
  double partial_rate = 0.3;  // of them, times the L2's rate
  double reduce_seconds = 0;  // launch of the second kernel
};

// Cycles that TMA takes for a row of 128 bytes of a box, beside all else of a k tile. Of an H200, fitted to 1,400 times
// of tiles and layers (docs/perf-notes/convolution.md, "Which engine is chosen").
constexpr double kTmaRow = 2.0;
constexpr double kTmaCutRow = 4.5;      // that its tensor ends in
constexpr double kTmaPaddingRow = 4.1;  // of an im2col box: a pixel of the padding
constexpr double kTmaShiftedRow = 5.5;  // that begins inside a sector of memory
constexpr double kTmaOutsideRow = 7.5;  // wholly out of bounds

[[nodiscard]] double estimate(const Footprint& footprint, const DeviceRates& rates);

}  // namespace gpudnn
