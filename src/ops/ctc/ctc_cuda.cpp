// Launcher of the CTC-loss kernels.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/ctc/cuda_engines.hpp"

namespace gpudnn::ctc {

Status log_walk_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::CtcParams params;
  params.shape = shape_of(problem);
  params.skip_impossible = problem.skip_impossible;
  std::copy_n(problem.x.strides, 3, params.x_strides);
  std::copy_n(problem.gradients.strides, 3, params.gradient_strides);
  params.x = args.x;
  params.costs = args.costs;
  params.gradients = args.gradients;
  params.workspace = args.workspace;
  params.labels = args.labels;
  params.label_lengths = args.label_lengths;
  params.input_lengths = args.input_lengths;
  kernels::launch_ctc_loss(params, site.stream);
  return cuda::launch_status("ctc_loss");
}

}  // namespace gpudnn::ctc
