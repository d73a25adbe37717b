// Launchers of the softmax kernels.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/softmax/softmax.hpp"
#include "ops/loop_nest.hpp"
#include "ops/softmax/cuda_engines.hpp"

namespace gpudnn::softmax {
namespace {

// The tensors a, b, out of the kernels, with the dimensions of one half (within a group, or between groups) left out.
tile::HostNest nest_of(const Problem& problem, bool within) {
  std::array<TensorGeometry, 3> tensors = {problem.x, problem.x, problem.y};
  if (problem.backward) tensors = {problem.y, problem.dy, problem.dx};
  const int first = 1;
  const int end = problem.mode == GPUDNN_SOFTMAX_MODE_INSTANCE ? tensors[0].rank : 2;
  for (TensorGeometry& tensor : tensors) {
    for (int i = 0; i < tensor.rank; ++i) {
      if ((i >= first && i < end) != within) tensor.dims[i] = 1;
    }
  }
  return make_loop_nest(tensors);
}

kernels::SoftmaxParams softmax_params(const Problem& problem, const Device& device, const Args& args) {
  kernels::SoftmaxParams params;
  params.type = element_type(problem.y.type);
  params.backward = problem.backward;
  params.logarithm = problem.algorithm == GPUDNN_SOFTMAX_LOG;
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.a = problem.backward ? args.y : args.x;
  params.b = problem.backward ? args.dy : args.x;
  params.out = args.out;
  params.within = nest_of(problem, true);
  params.between = nest_of(problem, false);
  params.multiprocessors = device.multiprocessors;
  params.has_clusters = device.has_clusters();
  params.shared_memory = static_cast<std::int64_t>(device.shared_memory_per_block);
  return params;
}

Status launch_strided(const LaunchSite& site, const kernels::SoftmaxParams& params) {
  kernels::launch_softmax_strided(params, site.stream);
  return cuda::launch_status("softmax_strided");
}

}  // namespace

Support supports_rows_cuda(const Problem& problem, const Device& device) {
  return kernels::softmax_rows_fit(softmax_params(problem, device, {}))
             ? Support::yes()
             : Support::no("the elements of a group are not contiguous");
}

Status rows_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::SoftmaxParams params = softmax_params(problem, site.device, args);
  if (!kernels::softmax_rows_fit(params)) return launch_strided(site, params);
  kernels::launch_softmax_rows(params, site.stream);
  return cuda::launch_status("softmax_rows");
}

Support supports_columns_cuda(const Problem& problem, const Device& device) {
  return kernels::softmax_columns_fit(softmax_params(problem, device, {}))
             ? Support::yes()
             : Support::no("neighbouring groups do not lie side by side");
}

Status columns_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_softmax_columns(softmax_params(problem, site.device, args), site.stream);
  return cuda::launch_status("softmax_columns");
}

Support supports_strided_cuda(const Problem&, const Device&) { return Support::yes(); }

Status strided_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  return launch_strided(site, softmax_params(problem, site.device, args));
}

}  // namespace gpudnn::softmax
