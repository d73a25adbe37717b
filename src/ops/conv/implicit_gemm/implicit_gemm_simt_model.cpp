// The cost model of the SIMT implicit GEMM: which tiles and splits of the reduction are worth a try, and their times.
//
// A multiprocessor works off its blocks at the tile's share of the multiply-add rate, less what too few warps cannot
// keep busy; no tile of the reduction is faster than a load from memory takes, unless other blocks fill the wait. The
// kernel is not faster than its bytes. A split reduction writes and reads its sums once more, in a second kernel.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/conv/implicit_gemm/implicit_gemm_simt_params.hpp"
#include "ops/conv/select/fastest_split.hpp"

namespace gpudnn::conv {
namespace {

using kernels::simt::kTileK;
using kernels::simt::TileRow;

// Rates of one multiprocessor of the device that the model was fitted to: a 132-processor sm_90 at 51 TFLOP/s in a
// multiply-add matrix product, and 4.27 TB/s in a copy.
constexpr double kFlopsPerMultiprocessor = 51e12 / 132;
constexpr double kBytesPerMultiprocessor = 4.27e12 / 132;
constexpr double kSumsBytesPerMultiprocessor = 3e12 / 132;  // partial sums go through the L2
constexpr double kLoadLatency = 0.45e-6;                    // of a tile of the reduction, with its barrier
constexpr double kBlockOverhead = 1.5e-6;                   // prologue and epilogue of a wave of blocks
constexpr double kLaunch = 2.5e-6;
constexpr double kReduceLaunch = 3e-6;
constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds

// Share of the rate that `warps` on a multiprocessor reach: 1 with 16.
double utilization(double warps) { return std::min(1.0, warps / (warps + 3) * (19.0 / 16)); }

double seconds_of_sums(const TileRow& row, double partials, double multiprocessors) {
  const double sums = 2 * static_cast<double>(kernels::simt::partial_bytes(row, static_cast<std::size_t>(partials)));
  return kReduceLaunch + sums / (kSumsBytesPerMultiprocessor * multiprocessors);
}

// Blocks of an instance on a multiprocessor, at the most.
constexpr int kMaxResident = [] {
  int most = 0;
  for (const TileRow& row : kernels::simt::kTiles) most = std::max(most, row.min_blocks);
  return most;
}();

// What the splits of a tile have in common.
struct Tile {
  const TileRow* row;
  double multiprocessors;
  double tiles;
  double k_tiles;                        // in all
  double utilization[kMaxResident + 1];  // with so many blocks on a multiprocessor
  double memory;
  double least;  // what any split takes, but for the sums: every multiprocessor busy, with all its warps, to the end
  double alone;  // what one of the tiles takes at the least, the reduction not split
  int most_parts;
};

Tile tile_of(const SimtShape& shape, const TileRow& row, double bytes, double multiprocessors) {
  Tile t = {};
  t.row = &row;
  t.multiprocessors = multiprocessors;
  t.tiles = std::ceil(shape.m / row.bm) * std::ceil(shape.n / row.bn) * shape.phases * shape.groups;
  t.k_tiles = shape.useful_k / kTileK;
  for (int i = 1; i <= row.min_blocks; ++i) t.utilization[i] = utilization(i * (row.threads() / 32.0));
  t.memory = bytes / (kBytesPerMultiprocessor * multiprocessors);
  const double flops = 2.0 * row.bm * row.bn * t.tiles * shape.useful_k;
  const double compute = flops / (kFlopsPerMultiprocessor * row.efficiency * multiprocessors);
  t.least = kRoundedDown * (kLaunch + kBlockOverhead + std::max(compute, t.memory));
  t.alone = kRoundedDown * t.k_tiles *
            std::max(kLoadLatency, 2.0 * row.bm * row.bn * kTileK / (kFlopsPerMultiprocessor * row.efficiency));
  t.most_parts = most_parts(t.tiles, t.k_tiles, multiprocessors);
  return t;
}

// `sums` is what seconds_of_sums says of the splits; nothing of a single one.
double seconds_of(const Tile& tile, double splits, double sums) {
  const TileRow& row = *tile.row;
  const double k_tiles = std::ceil(tile.k_tiles / splits);
  const double blocks_here = std::ceil(tile.tiles * splits / tile.multiprocessors);  // on the fullest multiprocessor
  const double waves = std::ceil(blocks_here / row.min_blocks);
  const double block = 2.0 * row.bm * row.bn * kTileK * k_tiles / (kFlopsPerMultiprocessor * row.efficiency);
  // Whole rounds of as many blocks as fit, then a last one of the rest, with fewer warps.
  const double rest = blocks_here - (waves - 1) * row.min_blocks;
  const double compute = (waves - 1) * row.min_blocks * block / tile.utilization[row.min_blocks] +
                         rest * block / tile.utilization[static_cast<int>(rest)];
  const double latency = waves * k_tiles * kLoadLatency;
  return kLaunch + waves * kBlockOverhead + std::max({compute, latency, tile.memory}) + sums;
}

constexpr double best_efficiency() {
  double best = 0;
  for (const TileRow& row : kernels::simt::kTiles) best = std::max(best, row.efficiency);
  return best;
}

}  // namespace

double least_flops(const Problem& problem) {
  if (problem.direction != Direction::dgrad) return flops(problem);
  // The stride phases are as large as the largest, and each tap belongs to one of them.
  double products = static_cast<double>(problem.x.dims[0]) * static_cast<double>(problem.y.dims[1]) *
                    static_cast<double>(problem.w.dims[1]);
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t pixels = (problem.x.dims[2 + i] + problem.stride[i] - 1) / problem.stride[i];
    products *= static_cast<double>(pixels) * static_cast<double>(problem.w.dims[2 + i]);
  }
  return 2 * products;
}

double simt_least_seconds(const Problem& problem, int multiprocessors) {
  const double processors = std::max(multiprocessors, 1);
  const double compute = least_flops(problem) / (kFlopsPerMultiprocessor * best_efficiency() * processors);
  const double memory = bytes_of_tensors(problem) / (kBytesPerMultiprocessor * processors);
  return kRoundedDown * (kLaunch + kBlockOverhead + std::max(compute, memory));
}

void simt_candidates(const Problem& problem, int multiprocessors, bool splits, std::vector<Candidate>* candidates) {
  constexpr std::size_t kModestWorkspace = std::size_t{8} << 20;
  const SimtShape shape = simt_shape(problem);
  const double bytes = bytes_of_tensors(problem);
  const double processors = std::max(multiprocessors, 1);
  for (int i = 0; i < kernels::simt::kTileCount; ++i) {
    const TileRow& row = kernels::simt::kTiles[i];
    if (row.type != shape.type || row.wide != shape.wide) continue;
    const Tile tile = tile_of(shape, row, bytes, processors);
    candidates->push_back({{i, 1}, seconds_of(tile, 1, 0)});
    if (!splits) continue;
    // The best split, and the best one with a modest workspace.
    Candidate best = candidates->back();
    Candidate modest = best;
    for (int parts = 2; parts <= tile.most_parts; parts = next_parts(parts)) {
      const std::size_t workspace = kernels::simt::partial_bytes(row, static_cast<std::size_t>(tile.tiles * parts));
      const double sums = seconds_of_sums(row, tile.tiles * parts, processors);
      const double bound = tile.least + sums;
      if (bound > best.seconds && (bound > modest.seconds || workspace > kModestWorkspace)) break;  // sums only grow
      const double seconds = seconds_of(tile, parts, sums);
      const Candidate candidate = {{i, parts}, seconds, workspace};
      if (seconds < best.seconds) best = candidate;
      if (seconds < modest.seconds && workspace <= kModestWorkspace) modest = candidate;
    }
    if (best.config.split_k > 1) candidates->push_back(best);
    if (modest.config.split_k > 1 && modest.config != best.config) candidates->push_back(modest);
  }
}

bool simt_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest) {
  const SimtShape shape = simt_shape(problem);
  const double bytes = bytes_of_tensors(problem);
  const double processors = std::max(multiprocessors, 1);
  FastestSplit split{.bound = bound, .fastest = fastest};
  for (int i = 0; i < kernels::simt::kTileCount; ++i) {
    const TileRow& row = kernels::simt::kTiles[i];
    if (row.type != shape.type || row.wide != shape.wide) continue;
    const Tile tile = tile_of(shape, row, bytes, processors);
    split.search(
        i, tile, [&](int parts) { return seconds_of_sums(row, tile.tiles * parts, processors); },
        [&](int parts, double sums) { return seconds_of(tile, parts, sums); });
  }
  if (split.found && fastest->config.split_k > 1) {
    fastest->workspace = kernels::simt::partial_bytes(kernels::simt::kTiles[fastest->config.tile],
                                                      static_cast<std::size_t>(split.partial_tiles));
  }
  return split.found;
}

}  // namespace gpudnn::conv
