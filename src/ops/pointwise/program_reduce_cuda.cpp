// Launcher of the kernels that run pointwise programs with reductions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/pointwise/program_reduce.hpp"
#include "kernels/tile/loop_nest.hpp"
#include "ops/pointwise/cuda_engines.hpp"
#include "ops/pointwise/prepared.hpp"

namespace gpudnn::pointwise {
namespace {

static_assert(kNoReduction == kernels::kNotFolded, "one number for none");

std::size_t workspace_of(const Problem& problem, const FoldLoops& fold, int splits) {
  return kernels::reduce_workspace(fold.results, splits, problem.program.stores,
                                   problem.program.compute == GPUDNN_DATA_DOUBLE);
}

Status launch_part(const LaunchSite& site, const PreparedPart& part, const Args& args) {
  const FoldLoops& fold = part.fold;
  const Problem& problem = part.problem;
  GPUDNN_REQUIRE(fold.results <= tile::kMaxIterations && fold.folded <= tile::kMaxIterations,
                 GPUDNN_STATUS_NOT_SUPPORTED,
                 "a reduction folds %lld elements into each of %lld; up to %lld of each are built",
                 static_cast<long long>(fold.folded), static_cast<long long>(fold.results),
                 static_cast<long long>(tile::kMaxIterations));
  Args part_args = args;
  for (int o = 0; o < problem.program.stores; ++o) part_args.stores[o] = args.stores[part.store[o]];
  kernels::ProgramReduceParams params;
  params.program = program_params(problem, part_args, fold.loops, site.device);
  params.kept = fold.kept;
  params.across = fold.across;
  std::copy_n(problem.reductions, problem.program.stores, params.fold);
  const auto tiling = kernels::reduce_tiling(fold.results, fold.folded, fold.across, site.device.multiprocessors);
  params.splits = args.workspace_bytes >= workspace_of(problem, fold, tiling.splits) ? tiling.splits : 1;
  params.workspace = args.workspace;
  tile::ProgramCode<float> code;
  tile::ProgramCode<double> code64;
  if (params.program.is_double) {
    bind(part.lowered, args.scalars, &code64);
    params.program.code64 = &code64;
  } else {
    bind(part.lowered, args.scalars, &code);
    params.program.code = &code;
  }
  kernels::launch_program_reduce(params, site.stream);
  return cuda::launch_status("pointwise program with a reduction");
}

}  // namespace

Support supports_program_reduce_cuda(const Problem&, const Device&) { return Support::yes(); }

Status program_reduce_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  Prepared made;
  if (args.prepared == nullptr) GPUDNN_TRY(prepare_cuda(problem, &made));
  for (const PreparedPart& part : (args.prepared == nullptr ? made : *args.prepared).parts) {
    GPUDNN_TRY(launch_part(site, part, args));
  }
  return GPUDNN_STATUS_SUCCESS;
}

std::size_t workspace_size_cuda(const Problem& problem, const Device& device) {
  std::size_t most = 0;
  for (const PreparedPart& part : parts_of(problem)) {
    if (!has_reduction(part.problem)) continue;
    const FoldLoops& fold = part.fold;
    const auto tiling = kernels::reduce_tiling(fold.results, fold.folded, fold.across, device.multiprocessors);
    most = std::max(most, workspace_of(part.problem, fold, tiling.splits));
  }
  return most;
}

}  // namespace gpudnn::pointwise
