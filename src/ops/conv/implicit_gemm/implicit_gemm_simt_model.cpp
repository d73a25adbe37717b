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

constexpr double kLoadLatency = 0.45e-6;  // of a k tile, with its barrier
constexpr double kWaveSeconds = 1.5e-6;   // prologue and epilogue of a wave of blocks
constexpr double kStartSeconds = 4.0e-6;  // of cold code, measured where nothing else takes long
constexpr double kReduceLaunch = 3e-6;

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

// Measured over modelled time, medians of two lists of drawn problems (docs/perf-notes/convolution.md).
double measured_share(const TileRow& row) {
  constexpr struct {
    int bm, bn;
    double share;
  } kShares[] = {{128, 64, 1.19}, {64, 64, 1.13}, {128, 32, 1.12}, {256, 16, 1.12}, {256, 4, 1.25}, {512, 12, 1.20}};
  for (const auto& known : kShares) {
    if (row.bm == known.bm && row.bn == known.bn) return known.share;
  }
  return 1;
}

}  // namespace

double scalar_store_seconds(double elements_of_thread, double warps, double blocks) {
  constexpr double kElementLatency = 0.22e-6;  // measured on an H200, one block on a multiprocessor
  constexpr double kElementIssue = 0.012e-6;   // of a warp
  return elements_of_thread * std::fmax(kElementLatency / blocks, kElementIssue * warps);
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
      Footprint f = whole;
      f.tiles *= splits;
      f.k_tiles = std::ceil(f.k_tiles / splits);
      if (splits > 1) {
        f.partial_bytes = 2.0 * static_cast<double>(workspace(splits));
        f.reduce_seconds = kReduceLaunch;
      } else if (!shape.stores_vectors) {
        const double blocks = std::fmin(std::ceil(f.tiles / device.rates.multiprocessors), f.resident);
        f.tile_seconds = scalar_store_seconds(row.tm * row.tn, f.warps, blocks);
      }
      return measured_share(row) * estimate(f, device.rates);
    };
    offer_splits({.tile = i, .tile_name = kNames[static_cast<std::size_t>(i)].text}, whole.tiles, whole.k_tiles,
                 device.rates.multiprocessors, seconds, workspace, candidates);
  }
}

}  // namespace gpudnn::conv
