// Pointwise programs, made ready for launches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/tile/program.hpp"
#include "ops/pointwise/prepared.hpp"

namespace gpudnn::pointwise {
namespace {

// Each store's group: 0 for element by element and for reductions that fold what the first one folds, then 1 ...
int group_stores(const Problem& problem, int* group) {
  int groups = 0;
  int first[kMaxStores] = {};
  for (int o = 0; o < problem.program.stores; ++o) {
    group[o] = 0;
    if (problem.reductions[o] == kNoReduction) continue;
    int g = 0;
    while (g < groups && !same_dims(problem.stores[first[g]], problem.stores[o])) ++g;
    if (g == groups) first[groups++] = o;
    group[o] = g;
  }
  return groups;
}

PreparedPart part_of(const Problem& problem, const int* group, int wanted) {
  PreparedPart part;
  part.problem = problem;
  Problem& p = part.problem;
  p.program.stores = 0;
  for (int o = 0; o < problem.program.stores; ++o) {
    if (group[o] != wanted) continue;
    const int at = p.program.stores++;
    p.program.stored[at] = problem.program.stored[o];
    p.stores[at] = problem.stores[o];
    p.reductions[at] = problem.reductions[o];
    part.store[at] = o;
  }
  std::fill(p.reductions + p.program.stores, p.reductions + kMaxStores, kNoReduction);
  part.fold = fold_loops_of(p);
  return part;
}

PreparedPart whole(const Problem& problem) {
  PreparedPart part;
  part.problem = problem;
  for (int o = 0; o < problem.program.stores; ++o) part.store[o] = o;
  part.fold.loops = loops_of(problem);
  return part;
}

Status lower_part(PreparedPart* part) {
  const Problem& p = part->problem;
  DataType store_type[kMaxStores];
  for (int o = 0; o < p.program.stores; ++o) {
    // What is folded is rounded to its own type first.
    store_type[o] = p.reductions[o] == kNoReduction ? p.stores[o].type : GPUDNN_DATA_COMPLEX_FP64;
  }
  return lower(p.program, store_type, &part->lowered);
}

}  // namespace

bool has_reduction(const Problem& problem) noexcept {
  return std::any_of(problem.reductions, problem.reductions + problem.program.stores,
                     [](int reduction) { return reduction != kNoReduction; });
}

std::vector<PreparedPart> parts_of(const Problem& problem) {
  if (!has_reduction(problem)) return {whole(problem)};
  int group[kMaxStores];
  const int groups = group_stores(problem, group);
  std::vector<PreparedPart> parts;
  for (int g = 0; g < groups; ++g) parts.push_back(part_of(problem, group, g));
  return parts;
}

Status prepare_cuda(const Problem& problem, Prepared* prepared) {
  prepared->parts = parts_of(problem);
  for (PreparedPart& part : prepared->parts) GPUDNN_TRY(lower_part(&part));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::pointwise
