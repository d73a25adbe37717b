// The cost model of the mma.sync implicit GEMM: which tiles and splits of the reduction are worth a try, and their
// times.
//
// A tile of the reduction takes a multiprocessor the longest of three things: its products at the tile's share of the
// mma.sync rate, its bytes from the L2, and the instructions that start its copies. Too few warps leave gaps. The
// kernel is not faster than its bytes. A split reduction writes and reads its sums once more, in a second kernel.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ops/conv/implicit_gemm/implicit_gemm_sm80_params.hpp"
#include "ops/conv/select/fastest_split.hpp"

namespace gpudnn::conv {
namespace {

using kernels::sm80::Load;
using kernels::sm80::TileRow;

// Rates of one multiprocessor of a 132-processor sm_90.
constexpr double kHalfFlops = 490e12 / 132;  // mma.sync, about 0.64 of what wgmma reaches there
constexpr double kTf32Flops = 260e12 / 132;
constexpr double kL2Bytes = 5.5e12 / 132;
constexpr double kMemoryBytes = 4.27e12 / 132;
constexpr double kInstructions = 4 * 1.6e9 * 0.7;  // of warps
constexpr double kSumsBytes = 3e12 / 132;          // partial sums go through the L2
constexpr double kInstructionsOfCopy = 10;         // address, bounds, copy
constexpr double kInstructionsOfPair = 24;         // of halves: two addresses, bounds and loads, one store
constexpr double kShortestTile = 0.16e-6;          // barrier, fragments and products of one block alone
constexpr double kShortestTileOfHalves = 0.5e-6;   // ... that waits for its loads, too
constexpr double kBlockOverhead = 2.5e-6;          // prologue and epilogue of a wave of blocks
constexpr double kLaunch = 2.5e-6;
constexpr double kReduceLaunch = 3e-6;
constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds
// Measured on an H200 over the above: 1.3 on the layers of ResNet-50 with both operands along channels or both along
// pixels; 2.4 in NCHW, where pixels of one operand meet channels of the other.
constexpr double kSlowdown = 1.3;
constexpr double kSlowdownOfMixedLoads = 2.4;

// Share of the rate that `warps` on a multiprocessor reach: 1 with 16.
double utilization(double warps) { return std::min(1.0, warps / (warps + 1.5) * (17.5 / 16)); }

constexpr double instructions_of_loads(const Load& load, int outer) {
  const double bytes = outer * kernels::sm80::kTileKBytes / 32.0;
  return load.vector < 4 ? bytes / 4 * kInstructionsOfPair : bytes / load.vector * kInstructionsOfCopy;
}

// Blocks of an instance on a multiprocessor, at the most.
constexpr int kMaxResident = [] {
  int most = 0;
  for (const TileRow& row : kernels::sm80::kTiles) most = std::max({most, row.min_blocks, row.halves_min_blocks});
  return most;
}();

struct Work {
  SimtShape shape;
  Load a, b;
  double bytes;
  double multiprocessors;
  double tile_k;
  bool halves;
};

// What the splits of a tile have in common.
struct Tile {
  const TileRow* row;
  double tiles;
  double seconds;  // of a tile of k
  double k_tiles;  // in all
  int resident;    // blocks that a multiprocessor holds at once
  double full_utilization;
  double rest[kMaxResident + 1];  // what so many blocks take, over the time of one at the full rate
  double memory;
  double slowdown;
  double least;  // what any split takes, but for the sums: every multiprocessor busy, with all its warps, to the end
  double alone;  // what one of the tiles takes at the least, the reduction not split
  int most_parts;
};

double shortest_of(const Work& work) { return work.halves ? kShortestTileOfHalves : kShortestTile; }

Tile tile_of(const Work& work, const TileRow& row) {
  const SimtShape& shape = work.shape;
  Tile t = {};
  t.row = &row;
  t.tiles = std::ceil(shape.m / row.bm) * std::ceil(shape.n / row.bn) * shape.phases * shape.groups;
  const double products = 2.0 * row.bm * row.bn * work.tile_k /
                          ((shape.type == tile::ElementType::f32 ? kTf32Flops : kHalfFlops) * row.efficiency);
  const double from_l2 = (row.bm + row.bn) * static_cast<double>(kernels::sm80::kTileKBytes) / kL2Bytes;
  const double issue = (instructions_of_loads(work.a, row.bm) + instructions_of_loads(work.b, row.bn)) / kInstructions;
  // Instructions of copies and products share the issue slots; half of the former hide behind the latter.
  t.seconds = std::max({products + 0.5 * issue, from_l2, issue});
  const double warps = row.threads(work.halves) / 32.0;
  t.k_tiles = shape.useful_k / work.tile_k;
  t.resident = work.halves ? row.halves_min_blocks : row.min_blocks;
  t.full_utilization = utilization(t.resident * warps);
  for (int i = 1; i <= t.resident; ++i) t.rest[i] = i / utilization(i * warps);
  t.memory = work.bytes / (kMemoryBytes * work.multiprocessors);
  t.slowdown = work.a.k_major == work.b.k_major ? kSlowdown : kSlowdownOfMixedLoads;
  const double busy = t.tiles * t.k_tiles * t.seconds / work.multiprocessors;
  t.least = kRoundedDown * (kLaunch + kBlockOverhead + std::max(busy * t.slowdown, t.memory));
  t.alone = kRoundedDown * t.k_tiles * std::max(t.seconds, shortest_of(work)) * t.slowdown;
  t.most_parts = most_parts(t.tiles, t.k_tiles, work.multiprocessors);
  return t;
}

double seconds_of_sums(const Work& work, const Tile& tile, double splits) {
  const double sums =
      2 * static_cast<double>(kernels::sm80::partial_bytes(*tile.row, static_cast<std::size_t>(tile.tiles * splits)));
  return kReduceLaunch + sums / (kSumsBytes * work.multiprocessors);
}

// `sums` is what seconds_of_sums says of the splits; nothing of a single one.
double seconds_of(const Work& work, const Tile& tile, double splits, double sums) {
  const double k_tiles = std::ceil(tile.k_tiles / splits);
  const double blocks_here = std::ceil(tile.tiles * splits / work.multiprocessors);  // on the fullest multiprocessor
  const double waves = std::ceil(blocks_here / tile.resident);
  const int rest = static_cast<int>(blocks_here - (waves - 1) * tile.resident);
  const double busy = k_tiles * tile.seconds * ((waves - 1) * tile.resident / tile.full_utilization + tile.rest[rest]);
  const double shortest = waves * k_tiles * shortest_of(work);
  return kLaunch + waves * kBlockOverhead + std::max({busy * tile.slowdown, shortest * tile.slowdown, tile.memory}) +
         sums;
}

// Which operands come element by element: none, the image, or the filter too.
enum class Scalars : std::uint8_t { none, of_image, of_both };
constexpr int kScalars = 3;

// Seconds that a tile of k takes a multiprocessor at the least.
constexpr double least_of_tile(const TileRow& row, bool half, Scalars scalars) {
  const int element = half ? 2 : 4;
  const int tile_k = kernels::sm80::kTileKBytes / element;
  const double products = 2.0 * row.bm * row.bn * tile_k / ((half ? kHalfFlops : kTf32Flops) * row.efficiency);
  const double from_l2 = (row.bm + row.bn) * static_cast<double>(kernels::sm80::kTileKBytes) / kL2Bytes;
  const int both = row.bm + row.bn;
  const int slow = scalars == Scalars::none ? 0 : scalars == Scalars::of_both ? both : std::min(row.bm, row.bn);
  const double issue =
      (instructions_of_loads({false, element}, slow) + instructions_of_loads({false, 16}, both - slow)) / kInstructions;
  return std::max({products + 0.5 * issue, from_l2, issue});
}

constexpr bool takes(const TileRow& row, bool half, Scalars scalars) {
  return scalars == Scalars::none || !half || row.halves_warps_n > 0;
}

// By type, loads and tile.
using Leasts = std::array<double, kernels::sm80::kTileCount>;
constexpr Leasts leasts_of_tiles(bool half, Scalars scalars) {
  Leasts leasts = {};
  for (std::size_t i = 0; i < leasts.size(); ++i) {
    const TileRow& row = kernels::sm80::kTiles[i];
    leasts[i] = takes(row, half, scalars) ? least_of_tile(row, half, scalars) * kSlowdown
                                          : std::numeric_limits<double>::infinity();
  }
  return leasts;
}

// The same of an operation, in the best of the tiles.
constexpr double least_of_operation(bool half) {
  const double tile_k = kernels::sm80::kTileKBytes / (half ? 2.0 : 4.0);
  double least = 1;
  for (const TileRow& row : kernels::sm80::kTiles) {
    least = std::min(least, least_of_tile(row, half, Scalars::none) * kSlowdown / (2.0 * row.bm * row.bn * tile_k));
  }
  return least;
}

// The result as the tiles of the engine cover it, and what a sum runs over; of a group. The data gradient falls into
// phases of pixels by the stride, which are as large as the largest. They are covered one by one or side by side, and
// each tap belongs to one of them.
struct Extents {
  double rows = 1;
  double columns = 1;
  double summed = 1;
};
Extents extents_of(const Problem& problem) {
  const double groups = problem.groups;
  const double filters = static_cast<double>(problem.y.dims[1]) / groups;
  const double channels = static_cast<double>(problem.x.dims[1]) / groups;
  double taps = 1;
  double pixels = static_cast<double>(problem.x.dims[0]);
  double phases = 1;
  for (int i = 0; i < problem.spatial; ++i) {
    taps *= static_cast<double>(problem.w.dims[2 + i]);
    if (problem.direction == Direction::dgrad) {
      const std::int64_t of_class = (problem.x.dims[2 + i] + problem.stride[i] - 1) / problem.stride[i];
      pixels *= static_cast<double>(of_class);
      phases *= static_cast<double>(problem.stride[i]);
    } else {
      pixels *= static_cast<double>(problem.y.dims[2 + i]);
    }
  }
  switch (problem.direction) {
    case Direction::forward:
      return {pixels, filters, channels * taps};
    case Direction::dgrad:
      return {pixels, channels * phases, filters * taps / phases};
    default:
      return {filters, channels * taps, pixels};
  }
}

// In the best of the tiles, not split or in any number of parts, of which there need be no whole one. The parts' sums
// take time, too.
double least_of_tiles(const Problem& problem, const Leasts& leasts, double memory, double processors) {
  const Extents e = extents_of(problem);
  const double tile_k = kernels::sm80::kTileKBytes / (data_type_bits(problem.x.type) / 8.0);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < leasts.size(); ++i) {
    if (leasts[i] > 1) continue;
    const TileRow& row = kernels::sm80::kTiles[i];
    const auto cover = [&](double m, double n) { return std::ceil(m / row.bm) * std::ceil(n / row.bn); };
    const double tiles = std::min(cover(e.rows, e.columns), cover(e.columns, e.rows)) * problem.groups;
    const double waves = std::ceil(std::ceil(tiles / processors) / std::max(row.min_blocks, row.halves_min_blocks));
    const double alone = e.summed / tile_k * leasts[i];  // of one tile
    const double full = alone * tiles / processors;      // of all, on a device without a gap
    const double sums = 2 * tiles * row.bm * row.bn * sizeof(float) / (kSumsBytes * processors);  // of a part
    const double parts = std::max(2.0, std::min({std::sqrt(alone / sums), processors / tiles, alone / memory}));
    const double whole = std::max({alone, full, memory});
    const double split = std::max({alone / parts, full, memory}) + kReduceLaunch + parts * sums;
    least = std::min(least, waves * kBlockOverhead + std::min(whole, split));
  }
  return least;
}

// What the bound may count on. (Where it may not, nothing is said.)
struct Loads {
  Scalars scalars = Scalars::none;
  bool mixed = false;  // the image's lie along pixels, the filter's along channels and taps
};
Loads loads_of(const Problem& problem) {
  const bool gradient = problem.direction == Direction::dgrad;
  const TensorGeometry& image = gradient ? problem.y : problem.x;
  const int last = problem.spatial + 1;
  const std::int64_t taps = problem.w.dims[last];
  const std::int64_t stride = problem.stride[problem.spatial - 1];
  const std::int64_t width =
      gradient ? problem.x.dims[last] : problem.y.dims[last];  // of the pixels that are summed for
  Loads loads;
  if (width <= 1 || image.dims[last] <= taps * problem.dilation[problem.spatial - 1]) return loads;
  if (!is_packed_nchw(image)) {
    // An odd number of channels, or a row of taps of them, lies in one piece; neighbouring pixels are as far apart.
    if (gradient || !is_packed_nhwc(image) || image.dims[1] % 2 == 0 || taps % 2 == 0) return loads;
    const std::int64_t filter = element_count(problem.w) / problem.w.dims[0];
    const bool of_both = problem.direction == Direction::forward && problem.w.dims[0] > 1 && filter % 2 != 0 &&
                         filter > 1 && is_packed_nhwc(problem.w);
    loads.scalars = of_both ? Scalars::of_both : Scalars::of_image;
    return loads;
  }
  const std::int64_t plane = element_count(image) / (image.dims[0] * image.dims[1]);
  const bool taps_are_next = problem.dilation[problem.spatial - 1] == 1;
  if (stride == 1) {
    // Neighbours along the width are next to each other, but those along taps are, too, or channels an odd number
    // apart: so none of these begin at multiples of two.
    const bool scalars = taps > 1 ? taps_are_next : plane % 2 != 0 && image.dims[1] > problem.groups;
    loads.scalars = scalars ? Scalars::of_image : Scalars::none;
  } else if (!gradient) {
    // Only taps are next to each other, of which there is an odd number.
    loads.scalars = taps % 2 != 0 && taps_are_next ? Scalars::of_image : Scalars::none;
  }
  // Loads run along pixels where neighbours are closer, or more of them in a row, than along what is summed over.
  double summed = taps > 1 ? static_cast<double>(taps) : 32.0 / static_cast<double>(plane);
  for (int i = 2; i < last && taps == 1; ++i) {
    if (problem.w.dims[i] > 1) summed = 32.0 / static_cast<double>(image.dims[last]);
  }
  const bool pairs_of_taps = stride > 1 && taps % 2 == 0 && taps_are_next;
  loads.mixed = problem.direction == Direction::forward && problem.mode == GPUDNN_CROSS_CORRELATION && !pairs_of_taps &&
                problem.w.dims[1] > 1 && is_packed_nchw(problem.w) &&
                std::min(static_cast<double>(width), 32.0) >= static_cast<double>(stride) * summed;
  return loads;
}

}  // namespace

double sm80_least_seconds(const Problem& problem, int multiprocessors) {
  constexpr double kLeastOfOperation[2] = {least_of_operation(false), least_of_operation(true)};
  const double processors = std::max(multiprocessors, 1);
  const double busy =
      least_flops(problem) * kLeastOfOperation[problem.x.type != GPUDNN_DATA_FLOAT ? 1 : 0] / processors;
  const double memory = bytes_of_tensors(problem) / (kMemoryBytes * processors);
  return kRoundedDown * (kLaunch + kBlockOverhead + std::max(busy, memory));
}

double sm80_closer_seconds(const Problem& problem, int multiprocessors) {
  static constexpr auto kLeasts = [] {
    std::array<std::array<Leasts, kScalars>, 2> leasts;
    for (const bool half : {false, true}) {
      for (int i = 0; i < kScalars; ++i) leasts[half ? 1 : 0][i] = leasts_of_tiles(half, static_cast<Scalars>(i));
    }
    return leasts;
  }();
  const double processors = std::max(multiprocessors, 1);
  const double memory = bytes_of_tensors(problem) / (kMemoryBytes * processors);
  const Loads loads = loads_of(problem);
  Leasts leasts = kLeasts[problem.x.type != GPUDNN_DATA_FLOAT ? 1 : 0][static_cast<int>(loads.scalars)];
  if (loads.mixed) {
    for (double& seconds : leasts) seconds *= kSlowdownOfMixedLoads / kSlowdown;
  }
  return kRoundedDown * (kLaunch + least_of_tiles(problem, leasts, memory, processors));
}

namespace {

Work work_of(const Problem& problem, int multiprocessors) {
  const Sm80Shape shape = sm80_shape(problem);
  return {shape.gemm,
          shape.a,
          shape.b,
          bytes_of_tensors(problem),
          static_cast<double>(std::max(multiprocessors, 1)),
          static_cast<double>(kernels::sm80::tile_k(shape.gemm.type)),
          std::min(shape.a.vector, shape.b.vector) < 4};
}

}  // namespace

bool sm80_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest) {
  const Work work = work_of(problem, multiprocessors);
  FastestSplit split{.bound = bound, .fastest = fastest};
  for (int i = 0; i < kernels::sm80::kTileCount; ++i) {
    const TileRow& row = kernels::sm80::kTiles[i];
    if (work.halves && row.halves_warps_n == 0) continue;
    const Tile tile = tile_of(work, row);
    split.search(
        i, tile, [&](int parts) { return seconds_of_sums(work, tile, parts); },
        [&](int parts, double sums) { return seconds_of(work, tile, parts, sums); });
  }
  if (split.found && fastest->config.split_k > 1) {
    fastest->workspace = kernels::sm80::partial_bytes(kernels::sm80::kTiles[fastest->config.tile],
                                                      static_cast<std::size_t>(split.partial_tiles));
  }
  return split.found;
}

void sm80_candidates(const Problem& problem, int multiprocessors, bool splits, std::vector<Candidate>* candidates) {
  constexpr std::size_t kModestWorkspace = std::size_t{8} << 20;
  const Work work = work_of(problem, multiprocessors);
  for (int i = 0; i < kernels::sm80::kTileCount; ++i) {
    const TileRow& row = kernels::sm80::kTiles[i];
    if (work.halves && row.halves_warps_n == 0) continue;
    const Tile tile = tile_of(work, row);
    candidates->push_back({{i, 1}, seconds_of(work, tile, 1, 0), 0});
    if (!splits) continue;
    // The best split, and the best one with a modest workspace.
    Candidate best = candidates->back();
    Candidate modest = best;
    for (int parts = 2; parts <= tile.most_parts; parts = next_parts(parts)) {
      const std::size_t workspace = kernels::sm80::partial_bytes(row, static_cast<std::size_t>(tile.tiles * parts));
      const double sums = seconds_of_sums(work, tile, parts);
      const double bound = tile.least + sums;
      if (bound > best.seconds && (bound > modest.seconds || workspace > kModestWorkspace)) break;  // sums only grow
      const Candidate candidate = {{i, parts}, seconds_of(work, tile, parts, sums), workspace};
      if (candidate.seconds < best.seconds) best = candidate;
      if (candidate.seconds < modest.seconds && workspace <= kModestWorkspace) modest = candidate;
    }
    if (best.config.split_k > 1) candidates->push_back(best);
    if (modest.config.split_k > 1 && modest.config != best.config) candidates->push_back(modest);
  }
}

}  // namespace gpudnn::conv
