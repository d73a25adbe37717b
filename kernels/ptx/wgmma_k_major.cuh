// wgmma.mma_async with both operands K-major. See wgmma_shape.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

template <class T, int kN>
__device__ __forceinline__ void wgmma_k_major(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b) {
  wgmma_ss<T, T, kN>(d, a, b);
}

}  // namespace gpudnn::ptx
