// Which activations the rounding of a pair of values has at no cost (pair_relu.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/activation.hpp"

namespace gpudnn::kernels::gemm {

// Identity, or ReLU with nothing but 0 as its bound.
inline bool is_of_rounding(const ActivationArgs<float>& a) {
  return a.mode == Activation::identity ||
         (a.mode == Activation::relu && a.lower == 0.0f && a.slope == 0.0f && !a.clips);
}

}  // namespace gpudnn::kernels::gemm
