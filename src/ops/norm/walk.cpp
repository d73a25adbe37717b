// The way through the tensors of a normalization.
// SPDX-License-Identifier: Apache-2.0
#include "ops/norm/walk.hpp"

#include <algorithm>

#include "ops/loop_nest.hpp"

namespace gpudnn::norm {
namespace {

using kernels::kNormSlots;
using kernels::kUnit;
using kernels::NormWalk;

// The dims over 1 of x, from the slowest to the fastest, and where the run begins.
struct Order {
  int dims[kMaxRank] = {};
  int count = 0;
  int run_begin = 0;     // dims[run_begin] to dims[count - 1] are the run
  bool columns = false;  // the run lies across sets
};

Order order_of(const Problem& problem) noexcept {
  const TensorGeometry& x = problem.x;
  Order order;
  for (int i = 0; i < x.rank; ++i) {
    if (x.dims[i] != 1) order.dims[order.count++] = i;
  }
  std::stable_sort(order.dims, order.dims + order.count, [&](int a, int b) { return x.strides[a] > x.strides[b]; });
  order.run_begin = order.count;
  if (order.count == 0) return order;
  const bool reduced = is_reduced(problem, order.dims[order.count - 1]);
  order.columns = !reduced;
  order.run_begin = order.count - 1;
  while (order.run_begin > 0) {
    const int inner = order.dims[order.run_begin];
    const int outer = order.dims[order.run_begin - 1];
    if (is_reduced(problem, outer) != reduced || x.strides[outer] != x.strides[inner] * x.dims[inner]) break;
    --order.run_begin;
  }
  return order;
}

// The tensors that take part, by slot; x stands in for those that do not.
void gather(const Problem& problem, TensorGeometry (&tensors)[kNormSlots]) {
  std::fill_n(tensors, static_cast<int>(kNormSlots), problem.x);
  const bool adds = problem.ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
  if (problem.pass == Pass::backward) {
    tensors[kernels::kSlotOut] = problem.dx;
    tensors[kernels::kSlotSide] = problem.dy;
    if (adds) tensors[kernels::kSlotDz] = problem.dz;
  } else {
    tensors[kernels::kSlotOut] = problem.y;
    if (adds) tensors[kernels::kSlotSide] = problem.z;
  }
  tensors[kernels::kSlotParams] = problem.params;
  tensors[kernels::kSlotStats] = problem.stats;
  for (const int slot : {kernels::kSlotParams, kernels::kSlotStats}) {  // they stay put where x is reduced
    for (int i = 0; i < problem.x.rank; ++i) {
      if (tensors[slot].dims[i] == 1) tensors[slot].strides[i] = 0;
    }
  }
}

// The shortest nest over the listed dims of x, in that order.
tile::HostNest nest_of(const TensorGeometry& x, const TensorGeometry (&tensors)[kNormSlots], const int* dims,
                       int count) {
  TensorGeometry picked[kNormSlots];
  for (int t = 0; t < kNormSlots; ++t) {
    picked[t].rank = std::max(count, 1);
    picked[t].dims[0] = 1;
    for (int i = 0; i < count; ++i) {
      picked[t].dims[i] = x.dims[dims[i]];
      picked[t].strides[i] = tensors[t].strides[dims[i]];
    }
  }
  return merged_nest(picked, kNormSlots);
}

// The widest access that every data tensor allows: its runs contiguous, of whole accesses, each line beginning at one.
int access_of(DataType type, const tile::HostNest& run, const tile::HostNest& lines, const tile::HostNest& cross) {
  if (run.rank > 1) return 0;
  const int size = data_type_bits(type) / 8;
  if (type == GPUDNN_DATA_DOUBLE) return size;
  for (const int bytes : {16, 4}) {
    if (bytes <= size) continue;
    const int width = bytes / size;
    bool fits = run.dims[0] % width == 0;
    for (const int slot : {kernels::kSlotX, kernels::kSlotOut, kernels::kSlotSide, kernels::kSlotDz}) {
      fits = fits && (run.strides[slot][0] == 1 || run.dims[0] == 1);
      for (const tile::HostNest* nest : {&lines, &cross}) {
        for (int i = 0; i < nest->rank; ++i) fits = fits && (nest->dims[i] == 1 || nest->strides[slot][i] % width == 0);
      }
    }
    if (fits) return bytes;
  }
  return size;
}

struct Extents {
  std::int64_t run = 1;
  std::int64_t lines = 1;
  std::int64_t cross = 1;
};

Extents extents_of(const Problem& problem, const Order& order) noexcept {
  Extents extents;
  for (int i = 0; i < order.count; ++i) {
    const int dim = order.dims[i];
    const bool same_kind = is_reduced(problem, dim) != order.columns;
    (i >= order.run_begin ? extents.run : same_kind ? extents.lines : extents.cross) *= problem.x.dims[dim];
  }
  return extents;
}

}  // namespace

NormWalk make_walk(const Problem& problem) {
  const Order order = order_of(problem);
  TensorGeometry tensors[kNormSlots];
  gather(problem, tensors);
  int lines[kMaxRank];
  int cross[kMaxRank];
  int line_count = 0;
  int cross_count = 0;
  for (int i = 0; i < order.run_begin; ++i) {
    const int dim = order.dims[i];
    if (is_reduced(problem, dim) != order.columns) {
      lines[line_count++] = dim;
    } else {
      cross[cross_count++] = dim;
    }
  }
  const tile::HostNest run = nest_of(problem.x, tensors, order.dims + order.run_begin, order.count - order.run_begin);
  const tile::HostNest line_nest = nest_of(problem.x, tensors, lines, line_count);
  const tile::HostNest cross_nest = nest_of(problem.x, tensors, cross, cross_count);
  NormWalk walk;
  walk.columns = order.columns ? 1 : 0;
  walk.access = access_of(problem.x.type, run, line_nest, cross_nest);
  walk.run = run.count();
  walk.units = tile::FastDivmod(static_cast<std::uint32_t>((walk.run + kUnit - 1) / kUnit));
  walk.lines = NormWalk::Nest(line_nest);
  walk.cross = NormWalk::Nest(cross_nest);
  walk.inner = NormWalk::Nest(run);
  if (run.rank == 1) {
    for (int t = 0; t < kNormSlots; ++t) walk.step[t] = run.strides[t][0];
  }
  return walk;
}

bool walk_fits(const Problem& problem) noexcept {
  const Extents extents = extents_of(problem, order_of(problem));
  const std::int64_t units = (extents.run + kUnit - 1) / kUnit;
  // In loops of its own a run is indexed by element.
  return units * extents.lines < tile::kMaxIterations && extents.cross < tile::kMaxIterations &&
         (extents.run < tile::kMaxIterations || make_walk(problem).access != 0);
}

std::size_t mask_bytes(const Problem& problem) {
  const Extents extents = extents_of(problem, order_of(problem));
  return static_cast<std::size_t>((extents.run + kUnit - 1) / kUnit * extents.lines * extents.cross);
}

}  // namespace gpudnn::norm
