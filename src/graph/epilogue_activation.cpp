// The activation behind a convolution or a matrix product, as their epilogues take it.
// SPDX-License-Identifier: Apache-2.0
#include "graph/epilogue_activation.hpp"

#include <limits>

#include "ops/conv/activation_number.hpp"

namespace gpudnn::graph {

bool read_activation(const Node& node, EpilogueActivation* activation, std::string* why) {
  using kernels::matmul::Activation;
  if (node.alpha != 1) return *why = "the activation's input is scaled", false;
  kernels::matmul::ActivationParams& p = activation->params;
  const auto take = [activation](Activation function) {
    activation->function = function;
    return true;
  };
  switch (node.mode) {
    case GPUDNN_POINTWISE_IDENTITY:
      return take(Activation::identity);
    case GPUDNN_POINTWISE_RELU_FWD:
      p.lower = node.lower_clip, p.upper = node.upper_clip, p.slope = node.slope;
      activation->propagates_nan = node.nan == GPUDNN_PROPAGATE_NAN;
      return take(Activation::relu);
    case GPUDNN_POINTWISE_GELU_FWD:
      return take(Activation::gelu);
    case GPUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
      return take(Activation::gelu_tanh);
    case GPUDNN_POINTWISE_SWISH_FWD:
      p.beta = node.swish_beta;
      return take(Activation::swish);
    case GPUDNN_POINTWISE_TANH_FWD:
      return take(Activation::tanh);
    case GPUDNN_POINTWISE_SIGMOID_FWD:
      return take(Activation::sigmoid);
    case GPUDNN_POINTWISE_ELU_FWD:
      p.alpha = node.elu_alpha;
      return take(Activation::elu);
    case GPUDNN_POINTWISE_SOFTPLUS_FWD:
      p.beta = node.softplus_beta;
      return take(Activation::softplus);
    default:
      return *why = "epilogues have no such operation", false;
  }
}

void set_activation(const EpilogueActivation& activation, conv::Problem* problem, conv::Args* args) {
  const kernels::matmul::ActivationParams& p = activation.params;
  const bool clips = p.upper < std::numeric_limits<float>::max();
  const bool is_relu = activation.function == kernels::matmul::Activation::relu;
  problem->activation =
      is_relu && clips ? GPUDNN_ACTIVATION_CLIPPED_RELU : conv::activation_number(activation.function);
  args->activation_coef = is_relu                                                   ? p.upper
                          : activation.function == kernels::matmul::Activation::elu ? p.alpha
                                                                                    : p.beta;
  args->relu_lower = p.lower;
  args->relu_slope = p.slope;
  args->propagate_nan = activation.propagates_nan;
}

}  // namespace gpudnn::graph
