// The launcher of flash_gather_backward_sm90: attention backward with options in 16-bit types on Hopper.
// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_gather.hpp"
#include "ops/attention/flash_sm90.hpp"

namespace gpudnn::attention {

Support supports_flash_gather_backward_sm90(const Problem& problem, const Device& device) {
  if (problem.backward == 0) return Support::no("it is a backward engine");
  if (const char* const reason = unsupported_gather(problem, device)) return Support::no(reason);
  for (const Tensor* tensor : {&problem.d_o, &problem.dq, &problem.dk, &problem.dv}) {
    if (!tensor->exists()) continue;
    if (const char* const reason = unsupported_gather_layout(*tensor)) return Support::no(reason);
  }
  return Support::yes();
}

std::size_t flash_gather_backward_sm90_workspace(const Problem& problem, const Device& device) {
  return gather_backward_workspace(problem, device);
}

Status flash_gather_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  launch_gather_backward(site, problem, gather_backward_params(site, problem, args),
                         kernels::launch_flash_gather_backward_sm90);
  return cuda::launch_status("flash_gather_backward_sm90");
}

}  // namespace gpudnn::attention
