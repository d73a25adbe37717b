// From the tensors of a reduction to the loops that its kernels run.
// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce/loops.hpp"

#include <algorithm>

namespace gpudnn::reduce {
namespace {

// One dimension with its step in each tensor.
struct Loop {
  std::int64_t extent;
  std::int64_t steps[3];
};

struct Loops {
  Loop loop[kMaxRank];
  int count = 0;
};

tile::HostNest make_nest(Loops loops, int tensors, bool in_memory_order) {
  if (in_memory_order) {
    std::stable_sort(loops.loop, loops.loop + loops.count,
                     [](const Loop& a, const Loop& b) { return a.steps[0] > b.steps[0]; });
  }
  tile::HostNest nest;
  nest.tensors = tensors;
  for (int i = 0; i < loops.count; ++i) {
    const Loop& loop = loops.loop[i];
    const int before = nest.rank - 1;
    bool merges = before >= 0 && nest.dims[before] * loop.extent <= INT32_MAX;
    for (int t = 0; merges && t < tensors; ++t) merges = nest.strides[t][before] == loop.steps[t] * loop.extent;
    const int place = merges ? before : nest.rank++;
    nest.dims[place] = merges ? nest.dims[place] * loop.extent : loop.extent;
    for (int t = 0; t < tensors; ++t) nest.strides[t][place] = loop.steps[t];
  }
  if (nest.rank == 0) {
    nest.rank = 1;
    nest.dims[0] = 1;
    for (int t = 0; t < tensors; ++t) nest.strides[t][0] = 1;
  }
  return nest;
}

}  // namespace

kernels::ReduceLoops make_loops(const Problem& problem) {
  TensorGeometry packed = problem.c;
  set_packed_strides(&packed, GPUDNN_TENSOR_NCHW);
  Loops kept;
  Loops reduced;
  for (int i = 0; i < problem.a.rank; ++i) {
    if (problem.a.dims[i] == 1) continue;
    Loops& loops = problem.c.dims[i] == 1 ? reduced : kept;
    loops.loop[loops.count++] = {problem.a.dims[i], {problem.a.strides[i], problem.c.strides[i], packed.strides[i]}};
  }
  // Without indices their array does not stand in the way of merging.
  kernels::ReduceLoops result = {make_nest(kept, has_indices(problem) ? 3 : 2, true),
                                 make_nest(reduced, 1, !has_indices(problem))};
  result.kept.tensors = 3;
  return result;
}

}  // namespace gpudnn::reduce
