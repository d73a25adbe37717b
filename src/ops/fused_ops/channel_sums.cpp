// Which device sums channels together, and the launch there.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/channel_sums.hpp"

#ifdef GPUDNN_WITH_CUDA
#include "ops/fused_ops/cuda_engines.hpp"
#endif

namespace gpudnn::fused_ops {

bool takes_sums(const SumsProblem& problem, const Device& device, std::size_t* workspace) {
  *workspace = 0;
  if (!problem.sum.present && !problem.squares.present) return false;
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA) return takes_sums_cuda(problem, device, workspace);
#endif
  (void)device;
  return false;
}

Status run(gpudnnHandle_t handle, const SumsProblem& problem, const SumsArgs& args) {
  if (element_count(problem.y) == 0) return GPUDNN_STATUS_SUCCESS;
#ifdef GPUDNN_WITH_CUDA
  const LaunchSite site = launch_site(handle);
  const cuda::DeviceScope scope(site.device);
  call_context().engine = "channel_sums";
  return sums_cuda(site, problem, args);
#else
  (void)handle, (void)args;
  return GPUDNN_REFUSE(GPUDNN_STATUS_INTERNAL_ERROR, "no device sums channels together in this build");
#endif
}

}  // namespace gpudnn::fused_ops
