// Launcher of the activation kernels.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/activation/activation.hpp"
#include "ops/activation/cuda_engines.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn::activation {
namespace {

kernels::ActivationMode kernel_mode(gpudnnActivationMode_t mode) noexcept {
  using kernels::ActivationMode;
  switch (mode) {
    case GPUDNN_ACTIVATION_SIGMOID:
      return ActivationMode::sigmoid;
    case GPUDNN_ACTIVATION_RELU:
      return ActivationMode::relu;
    case GPUDNN_ACTIVATION_TANH:
      return ActivationMode::tanh;
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      return ActivationMode::clipped_relu;
    case GPUDNN_ACTIVATION_ELU:
      return ActivationMode::elu;
    case GPUDNN_ACTIVATION_SWISH:
      return ActivationMode::swish;
    default:
      return ActivationMode::identity;
  }
}

}  // namespace

Support supports_elementwise_cuda(const Problem&, const Device&) { return Support::yes(); }

Status elementwise_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::ActivationParams params;
  params.type = element_type(problem.x.type);
  params.mode = kernel_mode(problem.mode);
  params.propagate_nan = problem.nan == GPUDNN_PROPAGATE_NAN;
  params.coef = problem.coef;
  params.alpha = args.alpha;
  params.beta = args.beta;
  params.x = args.x;
  params.y = args.y;
  params.dy = args.dy;
  params.out = args.out;
  if (problem.backward) {
    params.nest = make_loop_nest(std::array{problem.x, problem.y, problem.dy, problem.dx});
    kernels::launch_activation_backward(params, site.stream);
  } else {
    params.nest = make_loop_nest(std::array{problem.x, problem.y});
    kernels::launch_activation_forward(params, site.stream);
  }
  return cuda::launch_status("activation");
}

}  // namespace gpudnn::activation
