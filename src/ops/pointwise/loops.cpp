// The loops over a pointwise problem's elements.
// SPDX-License-Identifier: Apache-2.0
#include "ops/pointwise/loops.hpp"

#include <algorithm>
#include <numeric>

namespace gpudnn::pointwise {
namespace {

// `tensor` with the dims of the whole, in the order of `order`.
TensorGeometry stretched(const Problem& problem, const TensorGeometry& tensor, const int* order) {
  TensorGeometry result;
  result.rank = problem.rank;
  for (int i = 0; i < problem.rank; ++i) {
    const int from = order[i];
    result.dims[i] = problem.dims[from];
    result.strides[i] = tensor.dims[from] == problem.dims[from] ? tensor.strides[from] : 0;
  }
  return result;
}

TensorGeometry geometry_of_load(const Problem& problem, int load, const int* order) {
  const Program& program = problem.program;
  if (program.load_kind[load] == LoadKind::tensor) return stretched(problem, problem.loads[load], order);
  TensorGeometry numbers;
  std::copy_n(problem.dims, problem.rank, numbers.dims);
  if (program.load_kind[load] == LoadKind::index) numbers.strides[program.load_axis[load]] = 1;
  return stretched(problem, numbers, order);
}

bool has_all_dims(const Problem& problem, const TensorGeometry& tensor) {
  return std::equal(problem.dims, problem.dims + problem.rank, tensor.dims);
}

// The tensor whose memory decides the order.
const TensorGeometry& leader_of(const Problem& problem) {
  const Program& program = problem.program;
  for (int o = 0; o < program.stores; ++o) {
    if (problem.reductions[o] == kNoReduction) return problem.stores[o];
  }
  for (int i = 0; i < program.loads; ++i) {
    if (program.load_kind[i] == LoadKind::tensor && has_all_dims(problem, problem.loads[i])) return problem.loads[i];
  }
  return problem.stores[0];
}

}  // namespace

Loops loops_of(const Problem& problem) {
  const Program& program = problem.program;
  const TensorGeometry& leader = leader_of(problem);
  int order[kMaxRank];
  std::iota(order, order + problem.rank, 0);
  std::stable_sort(order, order + problem.rank, [&](int a, int b) { return leader.strides[a] > leader.strides[b]; });
  TensorGeometry tensors[kMaxLoads + kMaxStores];
  int count = 0;
  for (int o = 0; o < program.stores; ++o) tensors[count++] = stretched(problem, problem.stores[o], order);
  for (int i = 0; i < program.loads; ++i) tensors[count++] = geometry_of_load(problem, i, order);
  Loops loops;
  loops.rank = merge_dimensions(tensors, count);
  std::copy_n(tensors[0].dims, loops.rank, loops.dims);
  for (int o = 0; o < program.stores; ++o) std::copy_n(tensors[o].strides, loops.rank, loops.store_strides[o]);
  for (int i = 0; i < program.loads; ++i) {
    std::copy_n(tensors[program.stores + i].strides, loops.rank, loops.load_strides[i]);
  }
  return loops;
}

FoldLoops fold_loops_of(const Problem& problem) {
  const Loops merged = loops_of(problem);
  int reduction = 0;
  while (problem.reductions[reduction] == kNoReduction) ++reduction;
  const auto is_folded = [&](int i) { return merged.store_strides[reduction][i] == 0 && merged.dims[i] > 1; };
  FoldLoops result;
  Loops& loops = result.loops;
  loops.rank = merged.rank;
  int next = 0;
  for (const bool folded : {false, true}) {
    for (int i = 0; i < merged.rank; ++i) {
      if (is_folded(i) != folded) continue;
      loops.dims[next] = merged.dims[i];
      for (int t = 0; t < kMaxLoads; ++t) loops.load_strides[t][next] = merged.load_strides[t][i];
      for (int t = 0; t < kMaxStores; ++t) loops.store_strides[t][next] = merged.store_strides[t][i];
      (folded ? result.folded : result.results) *= merged.dims[i];
      ++next;
    }
    if (!folded) result.kept = next;
  }
  result.across = !is_folded(merged.rank - 1);
  return result;
}

}  // namespace gpudnn::pointwise
