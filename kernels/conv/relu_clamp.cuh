// ReLU and clipped ReLU at the end of a convolution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::kernels {

// Params: clipped, ceiling, propagate_nan.
template <class Params>
__device__ __forceinline__ float relu_clamp(const Params& p, float value) {
  const float positive = p.clipped ? fminf(fmaxf(value, 0.0f), p.ceiling) : fmaxf(value, 0.0f);
  return p.propagate_nan && value != value ? value : positive;
}

}  // namespace gpudnn::kernels
