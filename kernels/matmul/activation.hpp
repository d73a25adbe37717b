// The activation functions of a matrix product's epilogue, in float or double, for the host and the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/matmul/epilogue.hpp"
#include "kernels/tile/pointwise_math.cuh"

namespace gpudnn::kernels::matmul {

template <class E>
GPUDNN_HOST_DEVICE E activate(Activation activation, const ActivationParams& params, E x) {
  namespace pointwise = tile::pointwise;
  switch (activation) {
    case Activation::relu: {
      const E upper = params.upper < kNoUpperClip ? static_cast<E>(params.upper) : static_cast<E>(HUGE_VAL);
      return pointwise::relu<E>(x, {{static_cast<E>(params.lower), upper, static_cast<E>(params.slope)}, false});
    }
    case Activation::gelu:
      return pointwise::gelu(x);
    case Activation::gelu_tanh:
      return pointwise::gelu_tanh(x);
    case Activation::swish:
      return pointwise::swish(x, static_cast<E>(params.beta));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return pointwise::logistic(x);
    case Activation::elu:
      return pointwise::elu(x, static_cast<E>(params.alpha));
    case Activation::softplus:
      return pointwise::softplus(x, static_cast<E>(params.beta));
    case Activation::identity:
      break;
  }
  return x;
}

}  // namespace gpudnn::kernels::matmul
