// The configs of the mma.sync implicit GEMM: tiles and splits of the reduction, and their footprints.
//
// A k tile takes the longest of its products at mma.sync's rate, its bytes from the L2, and the instructions that start
// its copies, half of which hide behind the products.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm80_params.hpp"
#include "ops/conv/select/offer_splits.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

using kernels::sm80::Load;
using kernels::sm80::TileRow;

constexpr double kInstructionsOfCycle = 4 * 0.66;  // of warps, of a multiprocessor
constexpr double kInstructionsOfCopy = 18;         // address, bounds, copy
constexpr double kInstructionsOfPair = 35;         // of halves: two addresses, bounds and loads, one store
constexpr double kLatency = 0.16e-6;               // barrier, fragments and products of one block alone
constexpr double kLatencyOfHalves = 0.68e-6;       // ... that waits for its loads, too
constexpr double kWaveSeconds = 3.2e-6;            // prologue and epilogue of a wave of blocks of 8192 elements
constexpr double kStartSeconds = 1.6e-6;           // of cold code, measured where nothing else takes long
constexpr double kL2Efficiency = 0.74;
constexpr double kSlowdown = 1.3;  // measured on an H200 over the above

constexpr auto kNames = tile_names(kernels::sm80::kTiles, [](const TileRow& row) {
  return TileName().add("bm", row.bm).add("_bn", row.bn).add("_s", row.stages);
});

double instructions_of_loads(const Load& load, int outer) {
  const double bytes = outer * kernels::sm80::kTileKBytes / 32.0;
  return load.vector < 4 ? bytes / 4 * kInstructionsOfPair : bytes / load.vector * kInstructionsOfCopy;
}

// Windows that step along the rows of planes use a part of the sectors that they touch.
double slowdown_of(const Problem& problem) {
  constexpr double kStepSlowdown = 1.35;  // measured over drawn problems
  const int w = problem.spatial - 1;
  const bool steps = problem.direction != Direction::dgrad && problem.x.strides[2 + w] == 1 && problem.stride[w] > 1;
  return steps ? kSlowdown * kStepSlowdown : kSlowdown;
}

Footprint footprint_of(const Problem& problem, const Sm80Shape& shape, const TileRow& row, const DeviceRates& rates) {
  const SimtShape& gemm = shape.gemm;
  const bool halves = std::min(shape.a.vector, shape.b.vector) < 4;
  const double slowdown = slowdown_of(problem);
  const double tile_k = kernels::sm80::tile_k(gemm.type);
  Footprint f;
  f.tiles = std::ceil(gemm.m / row.bm) * std::ceil(gemm.n / row.bn) * gemm.phases * gemm.groups;
  f.resident = halves ? row.halves_min_blocks : row.min_blocks;
  f.k_tiles = gemm.useful_k / tile_k;
  f.warps = row.threads(halves) / 32.0;
  f.latency_warps = 2.9;
  f.flops = 2.0 * row.bm * row.bn * tile_k;
  f.flops_rate = gemm.type == tile::ElementType::f32 ? rates.mma_tf32_flops : rates.mma_half_flops;
  f.efficiency = row.efficiency / kSlowdown;
  f.l2_bytes = (row.bm + row.bn) * static_cast<double>(kernels::sm80::kTileKBytes);
  f.l2_efficiency = kL2Efficiency / slowdown;
  f.cycles = slowdown * (instructions_of_loads(shape.a, row.bm) + instructions_of_loads(shape.b, row.bn)) /
             kInstructionsOfCycle;
  f.k_tile_latency = slowdown * (halves ? kLatencyOfHalves : kLatency);
  f.wave_seconds = kWaveSeconds * std::sqrt(std::max(1.0, row.bm * row.bn / 8192.0));
  f.start_seconds = kStartSeconds;
  f.dram_bytes = bytes_of_tensors(problem);
  return f;
}

}  // namespace

void sm80_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const Sm80Shape shape = sm80_shape(problem);
  const bool halves = std::min(shape.a.vector, shape.b.vector) < 4;
  for (int i = 0; i < kernels::sm80::kTileCount; ++i) {
    const TileRow& row = kernels::sm80::kTiles[i];
    if (halves && row.halves_warps_n == 0) continue;
    const Footprint whole = footprint_of(problem, shape, row, device.rates);
    const auto workspace = [&](int splits) {
      return kernels::sm80::partial_bytes(row, static_cast<std::size_t>(whole.tiles * splits));
    };
    const auto seconds = [&](int splits) {
      return seconds_in_splits(problem, shape.gemm, whole, splits, workspace(splits),
                               row.bm * row.bn / (32 * whole.warps), device.rates);
    };
    offer_splits({.tile = i, .tile_name = kNames[static_cast<std::size_t>(i)].text}, whole.tiles, whole.k_tiles,
                 device.rates.multiprocessors, seconds, workspace, candidates);
  }
}

}  // namespace gpudnn::conv
