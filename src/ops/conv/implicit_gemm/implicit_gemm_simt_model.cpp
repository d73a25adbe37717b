// The configs of the SIMT implicit GEMM: tiles and splits of the reduction, and their footprints. No k tile is faster
// than a load from memory takes, unless other blocks fill the wait.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/cost_model.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_simt_params.hpp"
#include "ops/conv/select/offer_splits.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

using kernels::simt::kTileK;
using kernels::simt::TileRow;

constexpr double kLoadLatency = 0.55e-6;  // of a k tile, with its barrier
constexpr double kWaveSeconds = 1.8e-6;   // prologue and epilogue of a wave of blocks
constexpr double kStartSeconds = 4.0e-6;  // of cold code, measured where nothing else takes long
// Measured over two lists of drawn problems: of all tiles, and of those with few columns.
constexpr double kSlowdown = 1.05;
constexpr double kSlowdownOfFewColumns = 1.15;

// Rows of one name differ by type.
constexpr auto kNames = tile_names(kernels::simt::kTiles, [](const TileRow& row) {
  TileName name;
  name.add("bm", row.bm).add("_bn", row.bn);
  return row.wide ? name.add("_wide") : name;
});

Footprint footprint_of(const Problem& problem, const SimtShape& shape, const TileRow& row, const DeviceRates& rates) {
  Footprint f;
  f.tiles = std::ceil(shape.m / row.bm) * std::ceil(shape.n / row.bn) * shape.phases * shape.groups;
  f.resident = row.min_blocks;
  f.k_tiles = shape.useful_k / kTileK;
  f.warps = row.threads() / 32.0;
  f.latency_warps = 3;
  f.flops = 2.0 * row.bm * row.bn * kTileK;
  f.flops_rate = rates.fma_flops;
  f.efficiency = row.efficiency;
  f.k_tile_latency = kLoadLatency;
  f.wave_seconds = kWaveSeconds;
  f.start_seconds = kStartSeconds;
  f.dram_bytes = bytes_of_tensors(problem);
  return f;
}

}  // namespace

double store_seconds(double elements_of_thread, bool vectors, double warps, double blocks) {
  constexpr double kElementLatency = 0.26e-6;  // measured on an H200, one block on a multiprocessor
  constexpr double kElementIssue = 0.014e-6;   // of a warp
  const double stores = vectors ? elements_of_thread / 4 : elements_of_thread;
  return stores * std::fmax(kElementLatency / blocks, kElementIssue * warps);
}

double seconds_in_splits(const Problem& problem, const SimtShape& shape, const Footprint& whole, int splits,
                         std::size_t partial_bytes, double elements_of_thread, const DeviceRates& rates) {
  constexpr double kReduceLaunch = 3.5e-6;
  Footprint f = whole;
  f.tiles *= splits;
  f.k_tiles = std::ceil(f.k_tiles / splits);
  if (splits > 1) {
    f.partial_bytes = 2.0 * static_cast<double>(partial_bytes);
    // On their way to the kernel that adds them up and stores the results, few of a filter gradient's.
    f.partial_rate = problem.direction == Direction::wgrad ? 0.5 : shape.stores_vectors ? 0.28 : 0.15;
    f.reduce_seconds = kReduceLaunch;
  } else {
    const double blocks = std::fmin(std::ceil(f.tiles / rates.multiprocessors), f.resident);
    f.tile_seconds = store_seconds(elements_of_thread, shape.stores_vectors, f.warps, blocks);
  }
  return estimate(f, rates);
}

void simt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const SimtShape shape = simt_shape(problem);
  for (int i = 0; i < kernels::simt::kTileCount; ++i) {
    const TileRow& row = kernels::simt::kTiles[i];
    if (row.type != shape.type || row.wide != shape.wide) continue;
    const Footprint whole = footprint_of(problem, shape, row, device.rates);
    const auto workspace = [&](int splits) {
      return kernels::simt::partial_bytes(row, static_cast<std::size_t>(whole.tiles * splits));
    };
    const auto seconds = [&](int splits) {
      return (row.bn < 16 ? kSlowdownOfFewColumns : kSlowdown) *
             seconds_in_splits(problem, shape, whole, splits, workspace(splits), row.tm * row.tn, device.rates);
    };
    offer_splits({.tile = i, .tile_name = kNames[static_cast<std::size_t>(i)].text}, whole.tiles, whole.k_tiles,
                 device.rates.multiprocessors, seconds, workspace, candidates);
  }
}

}  // namespace gpudnn::conv
