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

}  // namespace

Loops loops_of(const Problem& problem) {
  const Program& program = problem.program;
  const TensorGeometry& leader = problem.stores[0];
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

}  // namespace gpudnn::pointwise
