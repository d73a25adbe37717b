// The launch shapes of the normalization kernels, and a model of their time.
//
// The model: a block moves a fixed number of bytes in a second as long as the device's memory keeps up, a launch costs
// a constant. It decides between one launch, whose blocks are as many as sets and cluster allow, and three that fill
// the device whatever the shape is.
// SPDX-License-Identifier: Apache-2.0
#include "ops/norm/shape.hpp"

#include <algorithm>

#include "core/integer.hpp"

namespace gpudnn::norm {
namespace {

using kernels::kNormColumnsThreads;
using kernels::kNormRowsThreads;
using kernels::kUnit;

constexpr int kLargestCluster = 8;     // that every device with clusters must take
constexpr double kThreadRate = 64e6;   // bytes in a second: 64 in flight for a microsecond
constexpr double kMemoryShare = 0.86;  // of a large copy's rate
constexpr double kOneLaunch = 4e-6;    // with the wait for the first bytes
constexpr double kFurtherLaunch = 2.5e-6;
constexpr int kStaticShared = 1024;        // that a block takes besides what it asks for
constexpr int kRowsShared = 2048;          // of the reductions
constexpr int kColumnsShared = 48 * 1024;  // of the reductions, for float; cached units come on top

int element_bytes(const Problem& problem) { return data_type_bits(problem.x.type) / 8; }
int kept_tensors(const Problem& problem) { return problem.pass == Pass::backward ? 2 : 1; }
// A unit of shared memory: elements go as float through the kernels that take them one by one.
int unit_bytes(const Problem& problem, const kernels::NormWalk& walk) {
  const bool by_element = walk.access <= element_bytes(problem) || walk.lines.rank > 1 || walk.cross.rank > 1;
  return kUnit * (by_element ? std::max(element_bytes(problem), 4) : element_bytes(problem)) * kept_tensors(problem);
}

// Shared memory for kept units where `per_multiprocessor` blocks are to fit.
std::int64_t room(const Device& device, int per_multiprocessor, int taken) {
  const auto all = static_cast<std::int64_t>(device.shared_memory_per_multiprocessor) / per_multiprocessor;
  const auto most = static_cast<std::int64_t>(device.shared_memory_per_block);
  return std::max<std::int64_t>(0, std::min(all - kStaticShared, most) - taken);
}

// Tensors read and written, x being read again unless it was kept.
double seconds_of(const Device& device, const Problem& problem, std::int64_t blocks, int threads,
                  int per_multiprocessor, double kept) {
  const double tensor = static_cast<double>(element_count(problem.x)) * element_bytes(problem);
  const double once = problem.pass == Pass::backward ? 3 : 2;
  const double again = (problem.pass == Pass::backward ? 2 : 1) * (1 - kept);
  const double resident =
      std::min<double>(static_cast<double>(blocks), static_cast<double>(device.multiprocessors) * per_multiprocessor);
  return (once + again) * tensor / std::min(kMemoryShare * device.rates.copy_bytes, resident * threads * kThreadRate);
}

Shape rows_cluster(const Device& device, const Problem& problem, const kernels::NormWalk& walk) {
  constexpr int kPerMultiprocessor = 2;
  const std::int64_t units = walk.line_units();
  const std::int64_t sets = walk.cross.count;
  const std::int64_t keepable =
      room(device, kPerMultiprocessor, kRowsShared) / unit_bytes(problem, walk);  // of a block
  const int most = device.has_clusters() ? kLargestCluster : 1;
  const std::int64_t wanted = static_cast<std::int64_t>(device.multiprocessors) * kPerMultiprocessor;
  Shape shape;
  // As many blocks as hold the set, and as it takes to busy the device if each still has a round of work.
  while (shape.parts < most && (units > keepable * shape.parts ||
                                (sets * shape.parts < wanted && units > 2 * kNormRowsThreads * shape.parts))) {
    shape.parts *= 2;
  }
  const std::int64_t of_block = ceil_div(units, shape.parts);
  // Where sets are plenty, small ones get small blocks with two units for each thread.
  const std::int64_t threads = sets * shape.parts > 2 * wanted ? ceil_div(of_block, 2) : of_block;
  shape.threads = static_cast<int>(std::clamp<std::int64_t>(round_up(threads, 32), 32, kNormRowsThreads));
  const std::int64_t rounds = ceil_div(units, static_cast<std::int64_t>(shape.parts) * shape.threads);
  shape.cached = static_cast<int>(std::min(rounds, keepable / shape.threads));
  const double kept = static_cast<double>(shape.cached) / static_cast<double>(rounds);
  shape.seconds = kOneLaunch + seconds_of(device, problem, sets * shape.parts, shape.threads, kPerMultiprocessor, kept);
  return shape;
}

// Units side by side: a warp's worth, unless that leaves multiprocessors idle; 64 bytes and more where it can be.
int lanes_for(const Problem& problem, std::int64_t units, std::int64_t tiles_wanted) {
  const int narrowest = std::max(1, 64 / (kUnit * element_bytes(problem)));
  int lanes = 32;
  while (lanes > narrowest && ceil_div(units, lanes) < tiles_wanted) lanes /= 2;
  while (lanes > 1 && lanes / 2 >= units) lanes /= 2;
  return lanes;
}

Shape columns_cluster(const Device& device, const Problem& problem, const kernels::NormWalk& walk) {
  constexpr int kPerMultiprocessor = 2;
  const std::int64_t units = walk.line_units();
  const std::int64_t count = walk.cross.count;
  const int most = device.has_clusters() ? kLargestCluster : 1;
  const std::int64_t wanted = static_cast<std::int64_t>(device.multiprocessors) * kPerMultiprocessor;
  Shape shape;
  shape.threads = kNormColumnsThreads;
  shape.lanes = lanes_for(problem, units, ceil_div(wanted, most));
  const std::int64_t tiles = ceil_div(units, shape.lanes);
  const int rows = shape.threads / shape.lanes;
  while (shape.parts < most && tiles * shape.parts < wanted &&
         count > 2 * static_cast<std::int64_t>(rows) * shape.parts) {
    shape.parts *= 2;
  }
  const std::int64_t rounds = ceil_div(count, static_cast<std::int64_t>(rows) * shape.parts);
  const int taken = problem.x.type == GPUDNN_DATA_DOUBLE ? 2 * kColumnsShared : kColumnsShared;
  const std::int64_t of_round = static_cast<std::int64_t>(shape.threads) * unit_bytes(problem, walk);
  shape.cached = static_cast<int>(std::min(rounds, room(device, kPerMultiprocessor, taken) / of_round));
  const double kept = static_cast<double>(shape.cached) / static_cast<double>(rounds);
  // Columns of 64 bytes reach a quarter of the rate on an H200: 44 us where 11 were expected, 2048 channels of 7x7.
  const double narrow = shape.lanes * kUnit * element_bytes(problem) <= 64 ? 4 : 1;
  shape.seconds =
      kOneLaunch + narrow * seconds_of(device, problem, tiles * shape.parts, shape.threads, kPerMultiprocessor, kept);
  return shape;
}

}  // namespace

Shape cluster_shape(const Device& device, const Problem& problem, const kernels::NormWalk& walk) {
  return walk.columns != 0 ? columns_cluster(device, problem, walk) : rows_cluster(device, problem, walk);
}

Shape split_shape(const Device& device, const Problem& problem, const kernels::NormWalk& walk) {
  constexpr int kPerMultiprocessor = 2;
  const std::int64_t units = walk.line_units();
  const std::int64_t wanted = static_cast<std::int64_t>(device.multiprocessors) * kPerMultiprocessor;
  Shape shape;
  std::int64_t tiles, most;
  if (walk.columns != 0) {
    shape.threads = kNormColumnsThreads;
    shape.lanes = lanes_for(problem, units, 1);
    tiles = ceil_div(units, shape.lanes);
    most = ceil_div(walk.cross.count, 4 * static_cast<std::int64_t>(shape.threads / shape.lanes));
  } else {
    shape.threads = kNormRowsThreads;
    tiles = walk.cross.count;
    most = ceil_div(units, 2 * kNormRowsThreads);
  }
  shape.parts = static_cast<int>(std::clamp<std::int64_t>(wanted / tiles, 1, most));
  const int launches = problem.pass == Pass::backward && !problem.saved ? 5 : 3;
  shape.seconds = kOneLaunch + (launches - 1) * kFurtherLaunch +
                  seconds_of(device, problem, tiles * shape.parts, shape.threads, kPerMultiprocessor, 0);
  return shape;
}

}  // namespace gpudnn::norm
