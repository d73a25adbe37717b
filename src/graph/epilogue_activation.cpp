// The activation behind a convolution or a matrix product, as their epilogues take it.
// SPDX-License-Identifier: Apache-2.0
#include "graph/epilogue_activation.hpp"

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

}  // namespace gpudnn::graph
