// The cost model of the Hopper pointwise convolution on planes: tiles and splits of the sum, and their times.
//
// A block works off its tiles one after the other; a block of the sum takes the longer of its multiplications and its
// loads from the L2. Storing a tile overlaps with the next one's multiplications in ping-pong, and does not in a
// cooperative tile. The kernel is not faster than its bytes. A split sum is written and read once more, and a filter
// that is copied first costs a launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/conv/conv1x1/conv1x1_nchw_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace planes = kernels::sm90::planes;

// Of one multiprocessor of 132: those of the implicit GEMM's model. Bytes of planes come in shorter runs than pixels.
constexpr double kHalfRate = 767e12 / 132;
constexpr double kTf32Rate = 415e12 / 132;
constexpr double kL2Rate = 9e12 / 132;
constexpr double kMemoryRate = 4.0e12 / 132;
constexpr double kStoreRate = 2.0 * kMemoryRate;
constexpr double kSumsRate = 3.9e12 / 132;
constexpr double kLaunch = 3.0e-6;
constexpr double kPerTile = 0.35e-6;
constexpr double kShareThatShows = 0.1;  // of whatever the memory or the multiprocessors wait for least
constexpr double kNarrowTf32 = 0.7;      // measured at 14x14: the filter gradient in TF32 with 128 columns or fewer
constexpr double kReduceLaunch = 1.5e-6;
constexpr double kCopyLaunch = 2.0e-6;

double seconds(const planes::TileShape& tile, const PlanesSizes& sizes, const PlanesWorks& works, double splits,
               double bytes, double processors) {
  const bool half = sizes.element == 2;
  const auto element = static_cast<double>(sizes.element);
  const double bk = kernels::sm90::kRowBytes / element;
  const auto tiles = static_cast<double>(works.written * works.others);
  const bool along = tile.kind == planes::Kind::along;
  const double efficiency = tile.efficiency * (along && !half && tile.bn < 256 ? kNarrowTf32 : 1.0);
  const double step =
      std::max(2.0 * tile.bm * tile.bn * bk / ((half ? kHalfRate : kTf32Rate) * efficiency),
               (tile.bm + static_cast<double>(tile.bn) / tile.cluster) * kernels::sm90::kRowBytes / kL2Rate);
  const double per_tile = tile.cluster > 1 ? 1.6 * kPerTile : kPerTile;  // two blocks wait for each other
  const double store = along ? tile.bm * tile.bn * 4 / kSumsRate : tile.bm * tile.bn * element / kStoreRate;
  const double items = std::ceil(tiles * splits / std::floor(processors / tile.cluster));
  double compute = items * (std::ceil(static_cast<double>(works.k_blocks) / splits) * step + per_tile +
                            (tile.ping_pong ? 0.0 : store));
  if (tile.ping_pong) compute = std::max(compute, items * (store + per_tile));
  const double memory = bytes / (kMemoryRate * processors);
  double total = kLaunch + store + std::max(compute, memory) + kShareThatShows * std::min(compute, memory);
  if (along) {
    const double sums = 2.0 * tiles * splits * tile.bm * tile.bn * sizeof(float);
    total += kReduceLaunch + sums / (kSumsRate * processors);
  }
  if (sizes.filter_bytes > 0) {
    total += kCopyLaunch + 2.0 * static_cast<double>(sizes.filter_bytes) / (kSumsRate * processors);
  }
  return total;
}

}  // namespace

void planes_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates) {
  constexpr double kMinKTiles = 4;  // of a split
  const double processors = std::max(multiprocessors, 1);
  const double bytes = bytes_of_tensors(problem);
  const planes::Kind kind = planes_kind(problem);
  const PlanesSizes sizes = planes_sizes(problem);
  for (int i = 0; i < planes::kTileShapeCount; ++i) {
    const planes::TileShape& tile = planes::kTileShapes[i];
    if (tile.kind != kind || tile.by_threads != sizes.by_threads) continue;
    const PlanesWorks works = planes_works(sizes, tile);
    const auto offer = [&](int splits) {
      candidates->push_back({{i, splits},
                             seconds(tile, sizes, works, splits, bytes, processors),
                             planes_workspace(sizes, works, tile, splits)});
    };
    offer(1);
    if (kind != planes::Kind::along) continue;
    // Splits that fill the device once, twice and four times.
    int last = 1;
    for (const double rounds : {1.0, 2.0, 4.0}) {
      const double most = std::min(std::floor(rounds * processors / static_cast<double>(works.written * works.others)),
                                   static_cast<double>(works.k_blocks) / kMinKTiles);
      const int splits = static_cast<int>(std::min(most, 1024.0));
      if (splits <= last) continue;
      offer(splits);
      last = splits;
    }
  }
}

}  // namespace gpudnn::conv
