// wgmma.mma_async with A in registers and B in shared memory, K-major or, of 16-bit elements, MN-major. See
// wgmma_shape.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

template <class T, int kN, bool kBIsMnMajor = false>
__device__ __forceinline__ void wgmma_a_registers(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b) {
  wgmma_rs<T, T, kN, kBIsMnMajor ? Major::mn : Major::k>(d, a, b);
}

}  // namespace gpudnn::ptx
