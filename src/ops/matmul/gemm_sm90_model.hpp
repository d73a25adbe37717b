// What a config of the Hopper matrix product costs, and the configs worth a try.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/cost_model.hpp"
#include "kernels/matmul/gemm_sm90.hpp"

namespace gpudnn::kernels::matmul::sm90 {

// What DeviceRates do not tell of the kernel, measured on an H200 (docs/perf-notes.md).
struct Costs {
  double l2_efficiency = 1.16;    // loads by TMA over the L2's rate in DeviceRates
  double load_latency = 1.1e-6;   // seconds from a copy's start to its end under load
  double start_seconds = 2.6e-6;  // beyond a launch: code from memory, tensor maps, the first loads
  double code_seconds = 1.35e-6;  // of 128 x 256 elements: the larger the tile, the more of its code is cold
  double tile_seconds = 0.18e-6;  // of a tile outside of its reduction and its store
  double store_rate = 3.1;        // of D, times the copy rate
  double pair_seconds = 0.05e-6;  // for blocks of a pair to meet
  double join_seconds = 1.5e-6;   // for blocks that share a reduction, and for each of them
  double split_seconds = 0.55e-6;
  double halves_seconds = 1.3e-6;        // for two that exchange halves
  double swap_ab_join_seconds = 0.4e-6;  // of swap-AB tiles, which are small
  double swap_ab_split_seconds = 0.06e-6;
  double shown = 0.28;     // share of the shorter of products and memory that adds to the longer
  double uneven = 0.27;    // share of an uneven last round in which the memory waits
  double filled = 1.33;    // rate of memory of stages that are half zeros, times two
  double crowded = 0.86;   // of the multiprocessors take clusters of 4 or 8 blocks
  double multicast = 1.0;  // of the loads of an operand that a pair shares
  double mn_major = 1.33;  // loads of an MN-major operand over those of a K-major one
};
constexpr Costs kCosts;

[[nodiscard]] Footprint footprint_of(const Gemm& gemm, const GemmConfig& config, const DeviceRates& rates,
                                     const Costs& costs = kCosts, const TileShape* shapes = kTiles) noexcept;
// Seconds that the model expects.
[[nodiscard]] double gemm_sm90_seconds(const Gemm& gemm, const GemmConfig& config, const DeviceRates& rates) noexcept;
// The configs worth a try, best first by the model; returns their number.
int gemm_sm90_candidates(const Gemm& gemm, const DeviceRates& rates, GemmConfig* configs, int most) noexcept;

}  // namespace gpudnn::kernels::matmul::sm90
