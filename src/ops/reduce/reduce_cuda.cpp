// Launcher of the reduction kernels.
// SPDX-License-Identifier: Apache-2.0
#include "ops/any_type.hpp"
#include "ops/reduce/cuda_engines.hpp"
#include "ops/reduce/loops.hpp"

namespace gpudnn::reduce {
namespace {

kernels::ReduceRule rule_of(const Problem& problem) {
  kernels::ReduceRule rule;
  rule.nan_wins = problem.nan == GPUDNN_PROPAGATE_NAN;
  switch (problem.op) {
    case GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
      rule.skip_zeros = true;
      [[fallthrough]];
    case GPUDNN_REDUCE_TENSOR_MUL:
      rule.family = kernels::ReduceFamily::product;
      break;
    case GPUDNN_REDUCE_TENSOR_MIN:
    case GPUDNN_REDUCE_TENSOR_MAX:
    case GPUDNN_REDUCE_TENSOR_AMAX:
      rule.family = kernels::ReduceFamily::extremum;
      rule.negate = problem.op == GPUDNN_REDUCE_TENSOR_MIN;
      rule.magnitude = problem.op == GPUDNN_REDUCE_TENSOR_AMAX;
      break;
    case GPUDNN_REDUCE_TENSOR_AVG:
      rule.divisor = static_cast<double>(reduced_count(problem));
      break;
    case GPUDNN_REDUCE_TENSOR_NORM1:
      rule.magnitude = true;
      break;
    case GPUDNN_REDUCE_TENSOR_NORM2:
      rule.square = rule.root = true;
      break;
    default:
      break;
  }
  return rule;
}

std::size_t split_bytes(const Problem& problem) {
  return static_cast<std::size_t>(element_count(problem.c)) *
         kernels::reduce_partial_bytes(any_type(problem.a.type), has_indices(problem));
}

}  // namespace

std::size_t workspace_cuda(const Problem& problem, const Device& device) {
  if (element_count(problem.a) == 0) return 0;
  const kernels::ReduceShape shape =
      kernels::reduce_shape(make_loops(problem), any_type(problem.a.type), device.multiprocessors);
  return shape.splits > 1 ? static_cast<std::size_t>(shape.splits) * split_bytes(problem) : 0;
}

Status reduce_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::ReduceParams params;
  params.in_type = any_type(problem.a.type);
  params.out_type = any_type(problem.c.type);
  params.rule = rule_of(problem);
  params.indexed = has_indices(problem);
  params.index_bytes = index_bytes(problem.index_type);
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.a = args.a;
  params.c = args.c;
  params.indices = args.indices;
  params.loops = make_loops(problem);
  params.shape = kernels::reduce_shape(params.loops, params.in_type, site.device.multiprocessors);
  // As many splits as the workspace holds; each partial result lies on its own alignment.
  const std::size_t partial = kernels::reduce_partial_bytes(params.in_type, params.indexed);
  const bool aligned = reinterpret_cast<std::uintptr_t>(site.workspace) % partial == 0;
  const auto room =
      site.workspace != nullptr && aligned ? static_cast<std::int64_t>(site.workspace_bytes / split_bytes(problem)) : 0;
  if (params.shape.splits > room) params.shape.splits = room > 1 ? room : 1;
  params.workspace = site.workspace;
  params.multiprocessors = site.device.multiprocessors;
  params.has_clusters = site.device.has_clusters();
  kernels::launch_reduce(params, site.stream);
  return cuda::launch_status("reduce");
}

}  // namespace gpudnn::reduce
