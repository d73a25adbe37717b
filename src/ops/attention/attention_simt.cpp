// The launcher of the general attention engine: every type, shape and option, on any device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention_simt.hpp"

#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/params.hpp"

namespace gpudnn::attention {

std::size_t attention_simt_workspace(const Problem& problem, const Device&) {
  if (problem.backward == 0) return 0;
  const std::int64_t rows = problem.batch() * problem.heads_q() * problem.length_q();
  return static_cast<std::size_t>(rows) * (problem.type() == GPUDNN_DATA_DOUBLE ? 8 : 4);
}

Status attention_simt(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::AttentionParams params = attention_params(problem, args);
  if (problem.backward == 0) {
    kernels::launch_attention_forward_simt(params, site.stream);
  } else {
    params.delta = site.workspace;
    kernels::launch_attention_backward_simt(params, site.stream);
  }
  return cuda::launch_status("attention_simt");
}

}  // namespace gpudnn::attention
