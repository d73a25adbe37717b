// How a convolution's sum meets what its result's place holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

// alpha * sum + beta * *to, rounded; *to is not read unless it counts. Params: alpha, beta.
template <class T, class Params>
__device__ __forceinline__ void combine_and_store(const Params& p, float sum, T* to) {
  float value = p.alpha * sum;
  if (p.beta != 0.0f) value += p.beta * tile::widen<float>(*to);
  *to = tile::narrow<T>(value);
}

}  // namespace gpudnn::kernels
