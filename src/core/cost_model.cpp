// The cost model.
// SPDX-License-Identifier: Apache-2.0
#include "core/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace gpudnn {
namespace {

double utilization(const Footprint& f, double blocks) {
  const double warps = f.warps * blocks;
  return std::min(1.0, warps / (warps + f.latency_warps) * (16 + f.latency_warps) / 16);
}

double seconds_of_k_tile(const Footprint& f, const DeviceRates& rates) {
  const double multiprocessors = rates.multiprocessors;
  const double products = f.flops / (f.flops_rate / multiprocessors * f.efficiency);
  const double l2 = f.l2_bytes / (rates.l2_bytes / multiprocessors * f.l2_efficiency);
  const double cycles = f.cycles / rates.clock;
  return std::max({products > 0 ? products + cycles / 2 : cycles, l2, cycles, f.tma_cycles / rates.clock});
}

}  // namespace

double estimate(const Footprint& f, const DeviceRates& rates) {
  const double multiprocessors = rates.multiprocessors;
  // On the fullest multiprocessor: whole waves of `resident` blocks, then one of the rest, with fewer warps.
  const double blocks = std::max(1.0, std::ceil(f.tiles / (f.slots > 0 ? f.slots : multiprocessors)));
  const double waves = std::ceil(blocks / f.resident);
  const double rest = blocks - (waves - 1) * f.resident;
  const double k_tile = seconds_of_k_tile(f, rates);
  const double busy = (waves - 1) * f.resident / utilization(f, f.resident) + rest / utilization(f, rest);
  const double reduction = f.k_tiles * std::max(busy * k_tile, waves * f.k_tile_latency);

  const double store = f.store_bytes / (f.store_rate * rates.copy_bytes / multiprocessors);
  double compute = reduction + blocks * (f.tile_seconds + (f.store_overlaps ? 0 : store));
  if (f.store_overlaps) compute = std::max(compute, blocks * (f.tile_seconds + store));
  const double memory = f.dram_bytes / rates.copy_bytes;
  const double partials = f.partial_bytes / (f.partial_rate * rates.l2_bytes);
  return rates.launch_seconds + f.start_seconds + store + waves * f.wave_seconds + std::max(compute, memory) +
         f.shown * std::min(compute, memory) + f.reduce_seconds + partials;
}

}  // namespace gpudnn
