// The activation of an epilogue, on 8 elements at a time: one branch for the eight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/params.hpp"
#include "kernels/tile/pointwise_math.cuh"

namespace gpudnn::kernels::gemm {

// `approximate` is for results that are rounded to 16 or 8 bits (pointwise_math.cuh has the bounds).
__device__ __forceinline__ void activate8(const Epilogue& e, bool approximate, float (&v)[8]) {
  namespace math = tile::pointwise;
  const auto each = [&v](auto function) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = function(v[i]);
  };
  switch (e.activation) {
    case Activation::identity:
      return;
    case Activation::relu: {
      const tile::PointwiseParams<float> p = {{e.lower, e.upper, e.slope}, false};
      return each([&p](float x) { return math::relu(x, p); });
    }
    case Activation::gelu:
      return each([](float x) { return math::gelu(x); });
    case Activation::gelu_tanh:
      if (approximate) return each([](float x) { return math::gelu_tanh<true>(x); });
      return each([](float x) { return math::gelu_tanh<false>(x); });
    case Activation::swish:
      if (approximate) return each([&e](float x) { return math::swish<true>(x, e.parameter); });
      return each([&e](float x) { return math::swish<false>(x, e.parameter); });
    case Activation::tanh:
      return each([](float x) { return tanhf(x); });
    case Activation::sigmoid:
      if (approximate) return each([](float x) { return math::logistic<true>(x); });
      return each([](float x) { return math::logistic<false>(x); });
    case Activation::elu:
      return each([&e](float x) { return math::elu(x, e.parameter); });
    case Activation::softplus:
      return each([&e](float x) { return math::softplus(x, e.parameter); });
  }
}

}  // namespace gpudnn::kernels::gemm
