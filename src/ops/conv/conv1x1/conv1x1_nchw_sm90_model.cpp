// The configs of the Hopper 1x1 convolution on NCHW: tiles and splits of the sum, and their footprints. Fitted on an
// H200.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/conv1x1/conv1x1_nchw_sm90_params.hpp"
#include "ops/conv/select/offer_splits.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

namespace planes = kernels::sm90::planes;
using planes::Kind;

constexpr double kTileSeconds = 0.35e-6;
constexpr double kTileOfThreads = 0.95e-6;  // that are stored without TMA
constexpr double kPairSeconds = 0.56e-6;    // of the two blocks of a cluster, which wait for each other
constexpr double kNarrowTf32 = 0.7;         // measured at 14x14: the filter gradient in TF32 with 128 columns or fewer
constexpr double kPartialRate = 0.39;       // of the L2's
constexpr double kReduceLaunch = 1.5e-6;
constexpr double kCopyLaunch = 2.0e-6;  // of the filter's copy

constexpr auto kNames = tile_names(planes::kTileShapes, [](const planes::TileShape& tile) {
  TileName name;
  name.add(tile.kind == Kind::across ? "sum_c" : tile.kind == Kind::along ? "sum_pixels" : "sum_c_tf32");
  name.add("_bm", tile.bm).add("_bn", tile.bn).add("_s", tile.stages);
  if (tile.by_threads) name.add("_no_tma");
  if (tile.cluster > 1) name.add("_cluster", tile.cluster);
  return name;
});

// Cycles of TMA for so many rows that are there, in the mean of the tiles that have them all; `outside` are not.
double cycles_of_rows(std::int64_t there, double row, std::int64_t outside, std::int64_t tiles) {
  return (static_cast<double>(there) * row + static_cast<double>(outside) * kTmaOutsideRow) /
         static_cast<double>(tiles);
}

// Cycles of TMA for a k tile. Rows are chunks of planes, and of the filter chunks of the sum.
double cycles_of_tma(const planes::TileShape& tile, const PlanesSizes& sizes, const PlanesWorks& works) {
  if (tile.by_threads) return 0;
  const double plane_row = kTmaRow + sizes.cut_chunks * (kTmaCutRow - kTmaRow);
  if (tile.kind == Kind::along) {
    const double row = sizes.cuts_sectors ? kTmaShiftedRow : plane_row;
    const auto planes_of = [&](std::int64_t planes, std::int64_t tiles) {
      const std::int64_t outside = planes < planes::kBlock ? 0 : round_up(planes, planes::kBlock) - planes;
      return cycles_of_rows(planes, row, outside, tiles);
    };
    return planes_of(sizes.out_planes, works.written) + planes_of(sizes.in_planes, works.others);
  }
  const std::int64_t summed = kernels::sm90::kRowBytes / sizes.element;
  const int pixels = tile.kind == Kind::across ? tile.bn : tile.bm;
  const int written = tile.kind == Kind::across ? tile.bm : tile.bn;
  // Neighbours are of different planes; those of halves are twice as many in a box.
  const double row = sizes.cuts_sectors ? kTmaShiftedRow * 4 / static_cast<double>(sizes.element) : plane_row;
  const double of_pixels =
      static_cast<double>(pixels) / static_cast<double>(summed) *
      cycles_of_rows(sizes.in_planes, row, works.k_blocks * summed - sizes.in_planes, works.k_blocks);
  const double cut = sizes.in_planes % summed != 0 ? 1 / static_cast<double>(works.k_blocks) : 0;
  const std::int64_t tiles = works.written * tile.cluster;
  const std::int64_t outside = tiles == 1 ? 0 : tiles * written - sizes.out_planes;
  return of_pixels / tile.cluster +
         cycles_of_rows(sizes.out_planes, kTmaRow + cut * (kTmaCutRow - kTmaRow), outside, tiles);
}

Footprint footprint_of(const planes::TileShape& tile, const PlanesSizes& sizes, const PlanesWorks& works, int splits,
                       double bytes, const DeviceRates& rates) {
  const bool half = sizes.element == 2;
  const auto element = static_cast<double>(sizes.element);
  const bool wgrad = tile.kind == Kind::along;
  Footprint f;
  f.tiles = static_cast<double>(works.written * works.others) * splits;
  f.slots = std::max(1.0, std::floor(static_cast<double>(rates.multiprocessors) / tile.cluster));
  f.k_tiles = std::ceil(static_cast<double>(works.k_blocks) / splits);
  f.flops = 2.0 * tile.bm * tile.bn * kernels::sm90::kRowBytes / element;
  f.flops_rate = half ? rates.half_flops : rates.tf32_flops;
  f.efficiency = 1.2 * tile.efficiency * (wgrad && !half && tile.bn < 256 ? kNarrowTf32 : 1.0);
  f.l2_bytes = (tile.bm + static_cast<double>(tile.bn) / tile.cluster) * kernels::sm90::kRowBytes;
  f.l2_efficiency = 1.8;
  f.tma_cycles = cycles_of_tma(tile, sizes, works);
  f.tile_seconds = tile.cluster > 1 ? kPairSeconds : tile.by_threads ? kTileOfThreads : kTileSeconds;
  f.store_bytes = tile.bm * tile.bn * (wgrad ? sizeof(float) : element);
  f.store_rate = wgrad ? 0.93 : 1.9;
  f.store_overlaps = tile.ping_pong;
  f.dram_bytes = 1.05 * bytes;
  f.shown = 0.1;
  f.start_seconds = 3.3e-6;
  f.partial_rate = kPartialRate;
  if (wgrad) {
    f.partial_bytes = 2.0 * f.tiles * tile.bm * tile.bn * sizeof(float);
    f.reduce_seconds = kReduceLaunch;
  }
  if (sizes.filter_bytes > 0) {
    f.partial_bytes += 2.0 * static_cast<double>(sizes.filter_bytes);
    f.reduce_seconds += kCopyLaunch;
  }
  return f;
}

}  // namespace

void planes_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const double bytes = bytes_of_tensors(problem);
  const Kind kind = planes_kind(problem);
  const PlanesSizes sizes = planes_sizes(problem);
  for (int i = 0; i < planes::kTileShapeCount; ++i) {
    const planes::TileShape& tile = planes::kTileShapes[i];
    if (tile.kind != kind || tile.by_threads != sizes.by_threads) continue;
    const PlanesWorks works = planes_works(sizes, tile);
    const auto offer = [&](int splits) {
      candidates->push_back({{.tile = i, .split_k = splits, .tile_name = kNames[static_cast<std::size_t>(i)].text},
                             estimate(footprint_of(tile, sizes, works, splits, bytes, device.rates), device.rates),
                             planes_workspace(sizes, works, tile, splits)});
    };
    if (kind != Kind::along) {
      offer(1);
      continue;
    }
    const auto tiles = static_cast<double>(works.written * works.others);
    offer_full_rounds(tiles, static_cast<double>(works.k_blocks), device.rates.multiprocessors, 1024, offer);
  }
}

}  // namespace gpudnn::conv
