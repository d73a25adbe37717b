// Cycles and rates of the convolution of images with few channels, for the model of its time and for the bound of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ops/conv/small_c/small_c_sm80_params.hpp"

namespace gpudnn::conv::small_c_cycles {

// Cycles of a multiprocessor for a tile of positions: matrix instructions at the rate that mma.sync reaches, or the
// words from shared memory at 128 bytes a cycle, whichever takes longer; the loads, the stores and the barriers.
constexpr double kCyclesOfMma = 6.5 / 4;  // four quarters of the multiprocessor work at once

inline double forward_products(double k_steps, int columns) {
  const double mma = k_steps * columns * kCyclesOfMma;
  const double shared = k_steps * 4.0 * (9 + columns / 4.0);
  return 1.15 * std::max(mma, shared);
}

inline double filter_step_cycles(int columns) {
  const double mma = columns / 2.0 * kCyclesOfMma;
  // Each warp loads dy; with 32 columns, where warps take turns, one of them does.
  const double shared = (columns == 32 ? 1 : 4) * 16.0 + columns / 2.0;
  return 1.15 * std::max(mma, shared) + 20;
}

inline double data_group_cycles(int columns) {
  const int blocks = columns / 8;
  const double mma = 8.0 * 32 * blocks * kCyclesOfMma;
  const double shared = 8.0 * (11 * 4 + 4 * 2 * blocks);
  return std::max(mma, shared);
}

constexpr double kClock = 1.6e9;
constexpr double kBytesPerMultiprocessor = 4.27e12 / 132;
constexpr double kLaunch = 2.5e-6;
constexpr double kPrologue = 3e-6;  // packing the filter, the first tile's wait

inline double seconds_of(double compute, double memory) {
  return kLaunch + kPrologue + std::max(compute, memory) + 0.2 * std::min(compute, memory);
}

}  // namespace gpudnn::conv::small_c_cycles
