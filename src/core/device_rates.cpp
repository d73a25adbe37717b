// The rates of devices: measured ones by name, and estimates for all others.
// SPDX-License-Identifier: Apache-2.0
#include "core/device_rates.hpp"

#include <algorithm>

namespace gpudnn {
namespace {

// Operations of a multiprocessor in a cycle.
struct Generation {
  int from;  // compute capability times ten, up to the next row's
  double half, tf32, mma_half, mma_tf32, fma;
};
constexpr Generation kGenerations[] = {
    {0, 256, 256, 256, 256, 128},       {75, 1024, 256, 1024, 256, 128},  {80, 2048, 1024, 2048, 1024, 128},
    {86, 1024, 256, 1024, 256, 256},    {89, 1024, 512, 1024, 512, 256},  {90, 4096, 2048, 2620, 1390, 256},
    {100, 4096, 2048, 2048, 1024, 256}, {120, 1024, 512, 1024, 512, 256},
};

// Shares of the highest rates that kernels reach, as the H200 below does.
constexpr double kClockShare = 0.86;
constexpr double kMemoryShare = 0.875;
constexpr double kMatrixShare = 0.835;
constexpr double kFmaShare = 0.89;
constexpr double kL2BytesOfCycle = 44.5;  // of a multiprocessor

// Devices that were measured. The first name that begins the device's counts.
struct Known {
  std::string_view name;
  DeviceRates rates;
};
constexpr Known kKnown[] = {
    {"NVIDIA H200", {132, 1.7e9, 4.2e12, 10e12, 767e12, 415e12, 490e12, 260e12, 51e12, 2.5e-6}},
    // Chips and clock of the H200, with HBM3 of 3.35 TB/s.
    {"NVIDIA H100 80GB HBM3", {132, 1.7e9, 2.95e12, 10e12, 767e12, 415e12, 490e12, 260e12, 51e12, 2.5e-6}},
};

}  // namespace

DeviceRates device_rates(const DeviceFacts& facts) {
  for (const Known& known : kKnown) {
    // A part of the device (MIG) has its name and fewer multiprocessors.
    if (facts.name.starts_with(known.name) && facts.multiprocessors == known.rates.multiprocessors) return known.rates;
  }
  const Generation* generation = kGenerations;
  for (const Generation& row : kGenerations) {
    if (row.from <= facts.major * 10 + facts.minor) generation = &row;
  }
  DeviceRates rates;
  rates.multiprocessors = std::max(facts.multiprocessors, 1);
  rates.clock = kClockShare * facts.clock;
  const double cycles = rates.clock * rates.multiprocessors;
  rates.copy_bytes = kMemoryShare * 2 * facts.memory_clock * facts.bus_bits / 8;
  rates.l2_bytes = kL2BytesOfCycle * cycles;
  rates.half_flops = kMatrixShare * generation->half * cycles;
  rates.tf32_flops = kMatrixShare * generation->tf32 * cycles;
  rates.mma_half_flops = kMatrixShare * generation->mma_half * cycles;
  rates.mma_tf32_flops = kMatrixShare * generation->mma_tf32 * cycles;
  rates.fma_flops = kFmaShare * generation->fma * cycles;
  return rates;
}

}  // namespace gpudnn
