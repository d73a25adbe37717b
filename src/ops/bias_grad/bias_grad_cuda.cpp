// Launcher of the bias-gradient kernels.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/bias_grad/bias_grad.hpp"
#include "ops/bias_grad/cuda_engines.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn::bias_grad {

Support supports_cluster_sum_cuda(const Problem&, const Device&) { return Support::yes(); }

Status cluster_sum_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  TensorGeometry one_channel = problem.dy;
  one_channel.dims[1] = 1;
  kernels::BiasGradParams params;
  params.type = element_type(problem.dy.type);
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.dy = args.dy;
  params.db = args.db;
  params.channels = problem.dy.dims[1];
  params.dy_channel_step = problem.dy.strides[1];
  params.db_channel_step = problem.db.strides[1];
  params.sum = make_loop_nest(std::array{one_channel});
  params.multiprocessors = site.device.multiprocessors;
  params.has_clusters = site.device.has_clusters();
  kernels::launch_bias_grad(params, site.stream);
  return cuda::launch_status("bias_grad");
}

}  // namespace gpudnn::bias_grad
