// The reduction engines. Each takes everything, so there is one for each backend.
// SPDX-License-Identifier: Apache-2.0
#include "host/reduce.hpp"
#include "ops/reduce/problem.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/reduce/cuda_engines.hpp"
#endif

namespace gpudnn::reduce {

std::size_t workspace_size(const Problem& problem, const Device& device) {
#ifdef GPUDNN_WITH_CUDA
  if (device.backend == GPUDNN_BACKEND_CUDA) return workspace_cuda(problem, device);
#endif
  (void)problem, (void)device;
  return 0;
}

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
           std::size_t workspace_bytes) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(problem.a) == 0 || element_count(problem.c) == 0) return GPUDNN_STATUS_SUCCESS;
  const LaunchSite site = launch_site(handle, workspace, workspace_bytes);
#ifdef GPUDNN_WITH_CUDA
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    call_context().engine = "rows_and_columns";
    const cuda::DeviceScope scope(site.device);
    return reduce_cuda(site, problem, args);
  }
#endif
  (void)site;
  call_context().engine = "host_reference";
  host::reduce(problem, args);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::reduce
