// The cost model of the Hopper implicit GEMM: which tiles and splits of the reduction are worth a try, and their times.
//
// A block works off its tiles one after the other; a k tile takes the longer of its multiplications and its loads
// from the L2. Storing a tile overlaps with the next one's multiplications in ping-pong, and does not in a cooperative
// tile. The kernel is not faster than its bytes. A split reduction writes and reads its sums once more.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"
#include "ops/conv/select/taker.hpp"

namespace gpudnn::conv {
namespace {

namespace sm90 = kernels::sm90;

// Fitted to 39 layers of ResNet-50 in f16 on an H200 of 132 multiprocessors, all shapes and splits: the choice is
// within 1.15 of the best on 38. Rates are of one multiprocessor; the matrix rates are those of a large product, 767
// TFLOP/s in f16 and 415 in TF32. The L2's and the store's are effective ones, not the hardware's.
constexpr double kHalfRate = 767e12 / 132;
constexpr double kTf32Rate = 415e12 / 132;
constexpr double kL2Rate = 10e12 / 132;
constexpr double kMemoryRate = 4.2e12 / 132;
constexpr double kStoreRate = 2.3 * kMemoryRate;
constexpr double kSumsRate = 3.9e12 / 132;  // partial sums go through the L2
constexpr double kLaunch = 2.5e-6;
constexpr double kPerTile = 0.32e-6;
constexpr double kReduceLaunch = 1.0e-6;
constexpr double kJoin = 6.0e-6;           // of the splits in a cluster, and the start of one
constexpr double kPair = 3.0e-6;           // of two
constexpr double kHelp = 12e-6;            // storing and fetching of sums, and what fix-up CTAs start and end late
constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds

// What the splits of a tile have in common: work items and k tiles of them all, and the seconds of a k tile and
// of a store.
struct Shape {
  double works = 0;
  double k_blocks = 0;  // summed over the works
  double most_k = 0;
  double step = 0;
  double store = 0;
};

double ceil_div(double a, double b) { return std::ceil(a / b); }

Shape shape_of(const Problem& problem, const Sm90Sizes& sizes, const sm90::TileShape& tile) {
  const bool by_taps = problem.direction == Direction::wgrad;
  const double element = data_type_bits(problem.x.type) / 8.0;
  const double n = ceil_div(sizes.columns, by_taps ? tile.bn / (sm90::kRowBytes / element) : tile.columns_of_c());
  Shape s;
  for (int i = 0; i < sizes.phases; ++i) {
    const double works = n * ceil_div(sizes.rows[i], tile.rows_of_c()) * problem.groups;
    const double k = sizes.taps[i] * ceil_div(sizes.summed, tile.k_bytes / element);
    s.works += works;
    s.k_blocks += works * k;
    s.most_k = std::max(s.most_k, k);
  }
  const double rate = element < 4 ? kHalfRate : kTf32Rate;
  const double bk = (by_taps ? sm90::kRowBytes : tile.k_bytes) / element;
  s.step =
      std::max(2.0 * tile.bm * tile.bn * bk / (rate * tile.efficiency), (tile.bm + tile.bn) * bk * element / kL2Rate);
  s.store = tile.bm * tile.bn * element / kStoreRate;
  return s;
}

// Clusters of 0 to 8 blocks side by side, as an H200 of 132 multiprocessors told: a cluster stays within a group of at
// most 18, and some of a group's are missing.
double cluster_slots(int blocks, double multiprocessors) {
  constexpr double kClusters[sm90::kMaxClusterSplits + 1] = {132, 132, 66, 39, 30, 22, 17, 15, 15};
  return std::max(1.0, std::floor(kClusters[blocks] * multiprocessors / 132));
}

double seconds(const sm90::TileShape& tile, const Shape& shape, double splits, double bytes, double multiprocessors) {
  if (tile.stream_k) {
    const double k = shape.most_k * shape.works / multiprocessors;
    return std::max(kLaunch + k * shape.step + kPerTile + kHelp, kLaunch + bytes / (kMemoryRate * multiprocessors));
  }
  const double slots =
      tile.cluster_split_k ? cluster_slots(static_cast<int>(splits), multiprocessors) * splits : multiprocessors;
  const double items = std::ceil(shape.works * splits / slots);
  const double k = std::ceil(shape.k_blocks / shape.works / splits);
  double compute = items * (k * shape.step + kPerTile + (tile.ping_pong ? 0.0 : shape.store));
  if (tile.ping_pong) compute = std::max(compute, items * (shape.store + kPerTile));
  double total = kLaunch + shape.store + std::max(compute, bytes / (kMemoryRate * multiprocessors));
  if (tile.cluster_split_k) return total + (splits > 2 ? kJoin : kPair);
  if (splits > 1) {
    const double sums = 2.0 * shape.works * splits * tile.bm * tile.bn * sizeof(float);
    total += kReduceLaunch + sums / (kSumsRate * multiprocessors);
  }
  return total;
}

// Pointwise, with pixels of fewer channels than a k tile: seconds of TMA for a row of an operand,
// fitted to 9 layers. Rows that fill no box take it longer than whole ones; the data gradient's filter has its own,
// whole.
double seconds_of_narrow_row(const Problem& problem) {
  const bool forward = problem.direction == Direction::forward;
  const TensorGeometry& in = forward ? problem.x : problem.y;
  const std::int64_t bytes = in.dims[1] / problem.groups * data_type_bits(in.type) / 8;
  if (problem.direction == Direction::wgrad || bytes >= sm90::kRowBytes) return 0;
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] != 1) return 0;
  }
  return (bytes == 64 ? 8 : forward ? 20 : 12) / 1.75e9;
}

void offer_candidates(const Problem& problem, int multiprocessors, Taker* taker) {
  constexpr double kMinKTiles = 4;        // of a split
  constexpr double kMinFixupKTiles = 40;  // of a tile
  constexpr int kMinFixupCtas = 8;
  const double bytes = bytes_of_tensors(problem);
  const Sm90Sizes sizes = sm90_sizes(problem);
  const double narrow_row = seconds_of_narrow_row(problem);
  const double processors = std::max(multiprocessors, 2);
  const double slots = std::max(multiprocessors, sm90::kMaxClusterSplits);
  for (int i = 0; i < sm90::kShapeCount; ++i) {
    const sm90::TileShape& tile = sm90::kShapes[i];
    if (!sm90_shape_fits(problem, tile)) continue;
    const Shape shape = shape_of(problem, sizes, tile);
    // No split takes less than all multiprocessors do without a gap.
    if (!taker->has_use_for(kRoundedDown * (kLaunch + shape.k_blocks * shape.step / slots))) continue;
    const auto tiles = static_cast<std::size_t>(shape.works);
    const auto offer = [&](int splits) {
      Candidate candidate = {{i, splits}, seconds(tile, shape, splits, bytes, processors), sizes.workspace};
      if (narrow_row > 0) {
        const double copies = kLaunch + std::ceil(shape.works / processors) * (tile.bm + tile.bn) * narrow_row;
        candidate.seconds = std::max(candidate.seconds, copies);
      }
      if (tile.stream_k) {
        candidate.workspace += 2 * sm90::partial_bytes(tile, tiles);
      } else if (splits > 1 && !tile.cluster_split_k) {
        candidate.workspace += sm90::partial_bytes(tile, tiles * static_cast<std::size_t>(splits));
      }
      taker->take(candidate);
    };
    if (tile.cluster_split_k) {
      // One round of clusters: their blocks do not stay for a second tile.
      for (int splits = 2; splits <= sm90::kMaxClusterSplits; ++splits) {
        if (shape.most_k / splits >= kMinKTiles && shape.works <= cluster_slots(splits, processors)) offer(splits);
      }
      continue;
    }
    if (tile.stream_k) {
      const int fixup_ctas = multiprocessors - static_cast<int>(tiles);
      const bool fits = fixup_ctas >= kMinFixupCtas && fixup_ctas <= static_cast<int>(tiles);
      if (fits && shape.most_k >= kMinFixupKTiles && shape.most_k <= sm90::kMaxFixupKTiles) offer(fixup_ctas);
      continue;
    }
    offer(1);
    if (tile.swap_ab) continue;
    // Splits that fill the device once, twice and four times.
    int last = 1;
    for (const double rounds : {1.0, 2.0, 4.0}) {
      const double most = std::min(rounds * processors / shape.works, shape.most_k / kMinKTiles);
      const int splits = static_cast<int>(std::min(most, 1024.0));
      if (splits <= last) continue;
      offer(splits);
      last = splits;
    }
  }
}

}  // namespace

namespace {

constexpr double best_efficiency(int k_bytes) {
  double best = 0;
  for (const sm90::TileShape& shape : sm90::kShapes) {
    if (shape.k_bytes == k_bytes) best = std::max(best, shape.efficiency);
  }
  return best;
}

// Channels or filters as the tiles cover them: in whole ones, of which the narrowest has so many.
constexpr double kNarrowestTile = [] {
  int narrowest = sm90::kShapes[0].bm;
  for (const sm90::TileShape& shape : sm90::kShapes) {
    narrowest = std::min({narrowest, shape.rows_of_c(), shape.columns_of_c()});
  }
  return narrowest;
}();

// Rows of both operands that a tile loads for each of C's.
constexpr double kRowsOfPixel = [] {
  double least = 2;
  for (const sm90::TileShape& shape : sm90::kShapes) {
    least = std::min(least, static_cast<double>(shape.bm + shape.bn) / shape.rows_of_c());
  }
  return least;
}();

// Products over the rate at which they are done: `rest` for each channel of the `summed`, which fill whole k tiles.
double least_of_summed(double summed, double rest, double element) {
  constexpr double kWide = best_efficiency(sm90::kRowBytes);
  constexpr double kNarrow = best_efficiency(sm90::kRowBytes / 2);
  const double narrow_block = 0.5 * sm90::kRowBytes / element;
  const double blocks = std::ceil(summed / narrow_block);
  return rest * narrow_block * std::min(blocks / kNarrow, 2 * std::ceil(blocks / 2) / kWide);
}

// Operations that the tiles do, those with zeros included, over the efficiency of the best of them.
double least_products(const Problem& problem, double element) {
  const double groups = problem.groups;
  const double filters = static_cast<double>(problem.y.dims[1]) / groups;
  const double channels = static_cast<double>(problem.x.dims[1]) / groups;
  const double taps = groups * least_reached(problem);
  switch (problem.direction) {
    case Direction::forward:
      return least_of_summed(channels, taps * std::max(filters, kNarrowestTile), element);
    case Direction::dgrad:
      return least_of_summed(filters, taps * std::max(channels, kNarrowestTile), element);
    default: {
      const double row = sm90::kRowBytes / element;  // the columns of a tap are whole ones
      return taps * std::max(filters, kNarrowestTile) * std::ceil(channels / row) * row /
             best_efficiency(sm90::kRowBytes);
    }
  }
}

}  // namespace

[[gnu::hot]] double sm90_least_seconds(const Problem& problem, int multiprocessors) {
  constexpr std::int64_t kSmallC = 8;
  if (problem.x.dims[1] > kSmallC) return 0;
  const std::int64_t vector = 128 / data_type_bits(problem.x.type);
  if (problem.w.dims[1] % vector != 0) return std::numeric_limits<double>::infinity();  // none are offered
  return sm90_closer_seconds(problem, multiprocessors);
}

double sm90_closer_seconds(const Problem& problem, int multiprocessors) {
  const double processors = std::max(multiprocessors, 2);
  const bool half = problem.x.type != GPUDNN_DATA_FLOAT;
  const double products = 2 * least_products(problem, half ? 2 : 4) / (half ? kHalfRate : kTf32Rate);
  const double copies = problem.groups * least_reached(problem) * kRowsOfPixel * seconds_of_narrow_row(problem);
  const double busy = std::max({products, copies, bytes_of_tensors(problem) / kMemoryRate});
  return kRoundedDown * (kLaunch + busy / processors);
}

void sm90_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates) {
  Taker taker{.all = candidates};
  offer_candidates(problem, multiprocessors, &taker);
}

bool sm90_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest) {
  Taker taker{.fastest = fastest, .bound = bound};
  offer_candidates(problem, multiprocessors, &taker);
  return taker.found;
}

}  // namespace gpudnn::conv
