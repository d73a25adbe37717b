// wgmma.mma_async of 64 x 168, of 16-bit elements, both operands MN-major. See wgmma_shape.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

template <class T>
__device__ __forceinline__ void wgmma_n168(float (&d)[84], std::uint64_t a, std::uint64_t b) {
  wgmma_ss<T, T, 168, Major::mn, Major::mn>(d, a, b);
}

}  // namespace gpudnn::ptx
