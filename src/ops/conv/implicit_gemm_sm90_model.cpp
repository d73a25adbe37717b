// The cost model of the Hopper implicit GEMM: which tiles and splits of the reduction are worth a try, and their times.
//
// A block works off its tiles one after the other; a block of k takes the longer of its multiplications and its loads
// from the L2. Storing a tile overlaps with the next one's multiplications in ping-pong, and does not in a cooperative
// tile. The kernel is not faster than its bytes. A split reduction writes and reads its sums once more.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>

#include "ops/conv/implicit_gemm_sm90_params.hpp"

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
constexpr double kJoin = 6.0e-6;  // of the splits in a cluster, and the start of one
constexpr double kPair = 3.0e-6;  // of two
constexpr double kHelp = 12e-6;   // storing and fetching of sums, and what helpers start and end late

// Work items and blocks of k of them all, of one split.
struct Shape {
  double works = 0;
  double k_blocks = 0;  // summed over the works
  double most_k = 0;
};

double ceil_div(double a, double b) { return std::ceil(a / b); }

Shape shape_of(const Problem& problem, const Sm90Sizes& sizes, const sm90::TileShape& tile) {
  const bool by_taps = problem.direction == Direction::backward_filter;
  const double element = data_type_bits(problem.x.type) / 8.0;
  const double n = ceil_div(sizes.columns, by_taps ? tile.bn / (sm90::kRowBytes / element) : tile.columns_of_c());
  Shape s;
  for (int i = 0; i < sizes.classes; ++i) {
    const double works = n * ceil_div(sizes.rows[i], tile.rows_of_c()) * problem.groups;
    const double k = sizes.taps[i] * ceil_div(sizes.summed, tile.k_bytes / element);
    s.works += works;
    s.k_blocks += works * k;
    s.most_k = std::max(s.most_k, k);
  }
  return s;
}

// Clusters of 0 to 8 blocks side by side, as an H200 of 132 multiprocessors told: a cluster stays within a group of at
// most 18, and some of a group's are missing.
double joined_slots(int blocks, double multiprocessors) {
  constexpr double kClusters[sm90::kMostJoined + 1] = {132, 132, 66, 39, 30, 22, 17, 15, 15};
  return std::max(1.0, std::floor(kClusters[blocks] * multiprocessors / 132));
}

double seconds(const Problem& problem, const sm90::TileShape& tile, const Shape& shape, double splits, double bytes,
               double multiprocessors) {
  const bool half = problem.x.type != GPUDNN_DATA_FLOAT;
  const double element = half ? 2 : 4;
  const double bk = (problem.direction == Direction::backward_filter ? sm90::kRowBytes : tile.k_bytes) / element;
  const double step = std::max(2.0 * tile.bm * tile.bn * bk / ((half ? kHalfRate : kTf32Rate) * tile.efficiency),
                               (tile.bm + tile.bn) * bk * element / kL2Rate);
  if (tile.helped) {
    const double k = shape.most_k * shape.works / multiprocessors;
    return std::max(kLaunch + k * step + kPerTile + kHelp, kLaunch + bytes / (kMemoryRate * multiprocessors));
  }
  const double slots = tile.joins ? joined_slots(static_cast<int>(splits), multiprocessors) * splits : multiprocessors;
  const double items = std::ceil(shape.works * splits / slots);
  const double k = std::ceil(shape.k_blocks / shape.works / splits);
  const double store = tile.bm * tile.bn * element / kStoreRate;
  double compute = items * (k * step + kPerTile + (tile.ping_pong ? 0.0 : store));
  if (tile.ping_pong) compute = std::max(compute, items * (store + kPerTile));
  double total = kLaunch + store + std::max(compute, bytes / (kMemoryRate * multiprocessors));
  if (tile.joins) return total + (splits > 2 ? kJoin : kPair);
  if (splits > 1) {
    const double sums = 2.0 * shape.works * splits * tile.bm * tile.bn * sizeof(float);
    total += kReduceLaunch + sums / (kSumsRate * multiprocessors);
  }
  return total;
}

// Pointwise, with pixels of fewer channels than a block of k: cycles of the copy engine for a row of an operand, fitted
// to 9 layers. Rows that fill no box take it longer than whole ones; the data gradient's filter has its own, whole.
double seconds_of_narrow_copies(const Problem& problem, const sm90::TileShape& tile, const Shape& shape,
                                double multiprocessors) {
  const bool forward = problem.direction == Direction::forward;
  const TensorGeometry& in = forward ? problem.x : problem.y;
  const std::int64_t bytes = in.dims[1] / problem.groups * data_type_bits(in.type) / 8;
  if (problem.direction == Direction::backward_filter || bytes >= sm90::kRowBytes) return 0;
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] != 1) return 0;
  }
  const double row = (bytes == 64 ? 8 : forward ? 20 : 12) / 1.75e9;
  return kLaunch + std::ceil(shape.works / multiprocessors) * (tile.bm + tile.bn) * row;
}

// Where candidates go: all into a list, or the first of the fastest within a bound. One type, so that the code around
// it is there once.
struct Taker {
  std::vector<Candidate>* all = nullptr;
  Candidate* fastest = nullptr;
  double bound = 0;
  bool found = false;

  void take(const Candidate& c) {
    if (all != nullptr) return all->push_back(c);
    if (found ? c.seconds >= bound : c.seconds > bound) return;
    found = true;
    bound = c.seconds;
    *fastest = c;
  }
};

void offer_candidates(const Problem& problem, int multiprocessors, Taker* taker) {
  constexpr double kFewestBlocksOfK = 4;  // of a split
  constexpr double kFewestHelped = 40;    // of a tile
  constexpr int kFewestHelpers = 8;
  const double bytes = bytes_of_tensors(problem);
  const Sm90Sizes sizes = sm90_sizes(problem);
  const double processors = std::max(multiprocessors, 2);
  for (int i = 0; i < sm90::kShapeCount; ++i) {
    const sm90::TileShape& tile = sm90::kShapes[i];
    if (!sm90_shape_fits(problem, tile)) continue;
    const Shape shape = shape_of(problem, sizes, tile);
    const auto tiles = static_cast<std::size_t>(shape.works);
    const auto offer = [&](int splits) {
      Candidate candidate = {{i, splits}, seconds(problem, tile, shape, splits, bytes, processors), sizes.workspace};
      candidate.seconds = std::max(candidate.seconds, seconds_of_narrow_copies(problem, tile, shape, processors));
      if (tile.helped) {
        candidate.workspace += 2 * sm90::partial_bytes(tile, tiles);
      } else if (splits > 1 && !tile.joins) {
        candidate.workspace += sm90::partial_bytes(tile, tiles * static_cast<std::size_t>(splits));
      }
      taker->take(candidate);
    };
    if (tile.joins) {
      // One round of clusters: their blocks do not stay for a second tile.
      for (int splits = 2; splits <= sm90::kMostJoined; ++splits) {
        if (shape.most_k / splits >= kFewestBlocksOfK && shape.works <= joined_slots(splits, processors)) offer(splits);
      }
      continue;
    }
    if (tile.helped) {
      const int helpers = multiprocessors - static_cast<int>(tiles);
      const bool fits = helpers >= kFewestHelpers && helpers <= static_cast<int>(tiles);
      if (fits && shape.most_k >= kFewestHelped && shape.most_k <= sm90::kMostHelpedBlocks) offer(helpers);
      continue;
    }
    offer(1);
    if (tile.swapped) continue;
    // Splits that fill the device once, twice and four times.
    int last = 1;
    for (const double rounds : {1.0, 2.0, 4.0}) {
      const double most = std::min(rounds * processors / shape.works, shape.most_k / kFewestBlocksOfK);
      const int splits = static_cast<int>(std::min(most, 1024.0));
      if (splits <= last) continue;
      offer(splits);
      last = splits;
    }
  }
}

}  // namespace

double sm90_closer_seconds(const Problem& problem, int multiprocessors) {
  constexpr double kBestEfficiency =
      std::max_element(std::begin(sm90::kShapes), std::end(sm90::kShapes), [](const auto& a, const auto& b) {
        return a.efficiency < b.efficiency;
      })->efficiency;
  constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds
  const double processors = std::max(multiprocessors, 2);
  double products = flops(problem) / 2;
  if (problem.direction == Direction::backward_data) {
    // Each tap reaches every pixel of a class.
    products = static_cast<double>(problem.x.dims[0] * problem.y.dims[1]) * static_cast<double>(problem.w.dims[1]);
    for (int i = 0; i < problem.spatial; ++i) {
      const std::int64_t reached = problem.x.dims[2 + i] / problem.stride[i] * problem.w.dims[2 + i];
      products *= static_cast<double>(reached);
    }
  }
  const double rate = (problem.x.type != GPUDNN_DATA_FLOAT ? kHalfRate : kTf32Rate) * kBestEfficiency;
  const double busy = std::max(2 * products / rate, bytes_of_tensors(problem) / kMemoryRate);
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
