// Launcher of the kernels that run pointwise programs with reductions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/pointwise/program_reduce.hpp"
#include "kernels/tile/loop_nest.hpp"
#include "ops/pointwise/cuda_engines.hpp"
#include "ops/pointwise/lower.hpp"

namespace gpudnn::pointwise {
namespace {

static_assert(kNoReduction == kernels::kNotFolded, "one number for none");

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

// The problem with the stores of one group alone.
Problem part_of(const Problem& problem, const int* group, int wanted, const Args& args, Args* part_args) {
  Problem part = problem;
  *part_args = args;
  part.program.stores = 0;
  for (int o = 0; o < problem.program.stores; ++o) {
    if (group[o] != wanted) continue;
    const int at = part.program.stores++;
    part.program.stored[at] = problem.program.stored[o];
    part.stores[at] = problem.stores[o];
    part.reductions[at] = problem.reductions[o];
    part_args->stores[at] = args.stores[o];
  }
  std::fill(part.reductions + part.program.stores, part.reductions + kMaxStores, kNoReduction);
  return part;
}

std::size_t workspace_of(const Problem& problem, const FoldLoops& fold, int splits) {
  return kernels::reduce_workspace(fold.results, splits, problem.program.stores,
                                   problem.program.compute == GPUDNN_DATA_DOUBLE);
}

Status launch_part(const LaunchSite& site, const Problem& problem, const Args& args) {
  const FoldLoops fold = fold_loops_of(problem);
  GPUDNN_REQUIRE(fold.results <= tile::kMaxIterations && fold.folded <= tile::kMaxIterations,
                 GPUDNN_STATUS_NOT_SUPPORTED,
                 "a reduction folds %lld elements into each of %lld; up to %lld of each are built",
                 static_cast<long long>(fold.folded), static_cast<long long>(fold.results),
                 static_cast<long long>(tile::kMaxIterations));
  DataType store_type[kMaxStores];
  for (int o = 0; o < problem.program.stores; ++o) {
    // What is folded is rounded to its own type first.
    store_type[o] = problem.reductions[o] == kNoReduction ? problem.stores[o].type : GPUDNN_DATA_COMPLEX_FP64;
  }
  Lowered lowered;
  GPUDNN_TRY(lower(problem.program, store_type, &lowered));
  kernels::ProgramReduceParams params;
  params.program = program_params(problem, args, fold.loops, site.device);
  params.kept = fold.kept;
  params.across = fold.across;
  std::copy_n(problem.reductions, problem.program.stores, params.fold);
  const auto tiling = kernels::reduce_tiling(fold.results, fold.folded, fold.across, site.device.multiprocessors);
  params.splits = args.workspace_bytes >= workspace_of(problem, fold, tiling.splits) ? tiling.splits : 1;
  params.workspace = args.workspace;
  tile::ProgramCode<float> code;
  tile::ProgramCode<double> code64;
  if (params.program.is_double) {
    bind(lowered, args.scalars, &code64);
    params.program.code64 = &code64;
  } else {
    bind(lowered, args.scalars, &code);
    params.program.code = &code;
  }
  kernels::launch_program_reduce(params, site.stream);
  return cuda::launch_status("pointwise program with a reduction");
}

}  // namespace

Support supports_program_reduce_cuda(const Problem&, const Device&) { return Support::yes(); }

Status program_reduce_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  int group[kMaxStores];
  const int groups = group_stores(problem, group);
  for (int g = 0; g < groups; ++g) {
    Args part_args;
    const Problem part = part_of(problem, group, g, args, &part_args);
    GPUDNN_TRY(launch_part(site, part, part_args));
  }
  return GPUDNN_STATUS_SUCCESS;
}

std::size_t workspace_size_cuda(const Problem& problem, const Device& device) {
  int group[kMaxStores];
  const int groups = group_stores(problem, group);
  std::size_t most = 0;
  for (int g = 0; g < groups; ++g) {
    Args part_args;
    const Problem part = part_of(problem, group, g, {}, &part_args);
    const FoldLoops fold = fold_loops_of(part);
    const auto tiling = kernels::reduce_tiling(fold.results, fold.folded, fold.across, device.multiprocessors);
    most = std::max(most, workspace_of(part, fold, tiling.splits));
  }
  return most;
}

}  // namespace gpudnn::pointwise
