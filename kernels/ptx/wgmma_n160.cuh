// wgmma.mma_async of 64 x 160, of 16-bit elements, both operands K-major. See wgmma_shape.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

template <class T>
__device__ __forceinline__ void wgmma_n160(float (&d)[80], std::uint64_t a, std::uint64_t b) {
  wgmma_ss<T, T, 160>(d, a, b);
}

}  // namespace gpudnn::ptx
