// From a footprint to seconds.
// SPDX-License-Identifier: Apache-2.0
#include "core/cost_model.hpp"

#include <algorithm>
#include <string_view>

#include "core/integer.hpp"

namespace gpudnn {
namespace {

// Measured with large matrix products and a 2 GiB copy.
constexpr DeviceRates kH200 = {4.27e12, 7e12, 2.5e-6, {51e12, 60e12, 797e12, 415e12, 1500e12}};
constexpr double kH100CopyBytes = 2.9e12;

// Operations a clock that a multiprocessor of the architecture does, by Unit.
struct PerClock {
  int from;  // compute capability
  double flops[5];
};
constexpr PerClock kPerClock[] = {{90, {256, 128, 4096, 2048, 8192}},
                                  {86, {256, 4, 1024, 512, 2048}},
                                  {80, {128, 64, 2048, 1024, 4096}},
                                  {75, {128, 4, 1024, 128, 2048}},
                                  {0, {128, 64, 128, 128, 128}}};

DeviceRates by_architecture(const Device& device) noexcept {
  constexpr double kClock = 1.5e9;
  DeviceRates rates{1e12, 3e12, 2.5e-6, {}};
  for (const PerClock& row : kPerClock) {
    if (device.compute_capability() < row.from) continue;
    for (int i = 0; i < 5; ++i) rates.flops[i] = row.flops[i] * device.multiprocessors * kClock;
    break;
  }
  return rates;
}

}  // namespace

DeviceRates rates_of(const Device& device) noexcept {
  const std::string_view name = device.name;
  if (name.find("H200") != std::string_view::npos) return kH200;
  if (name.find("H100") != std::string_view::npos) {
    DeviceRates rates = kH200;
    rates.copy_bytes = kH100CopyBytes;
    return rates;
  }
  // The host's engines are few and of known order: any rates do.
  if (device.backend == GPUDNN_BACKEND_HOST) return {1e10, 1e11, 1e-6, {1e10, 5e9, 1e10, 1e10, 1e10}};
  return by_architecture(device);
}

double estimate(const Footprint& footprint, const Device& device) noexcept {
  const DeviceRates rates = rates_of(device);
  const std::int64_t multiprocessors = std::max(device.multiprocessors, 1);
  const std::int64_t tiles = std::max<std::int64_t>(footprint.tiles, 1);
  const std::int64_t together = std::max(footprint.tiles_per_multiprocessor, 1);
  // The busiest multiprocessor decides; a tile that is alone there goes no faster than one of a full set.
  const std::int64_t busiest = ceil_div(tiles, multiprocessors);
  const std::int64_t rounds = ceil_div(busiest, together);
  const double rate = rates.flops[static_cast<int>(footprint.unit)] / static_cast<double>(multiprocessors);
  const double of_tile = footprint.flops / static_cast<double>(tiles) / (rate * footprint.efficiency);
  const double compute = static_cast<double>(std::max(busiest, rounds)) * of_tile;
  const double memory = std::max(footprint.dram_bytes / rates.copy_bytes, footprint.l2_bytes / rates.l2_bytes);
  return std::max(compute, memory) + static_cast<double>(rounds) * footprint.tile_seconds +
         footprint.launches * rates.launch_seconds;
}

}  // namespace gpudnn
