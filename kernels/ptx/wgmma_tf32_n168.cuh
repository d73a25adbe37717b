// wgmma.mma_async of 64 x 168 in TF32 with A in registers. See wgmma_shape.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

__device__ __forceinline__ void wgmma_tf32_n168(float (&d)[84], const std::uint32_t (&a)[4], std::uint64_t b) {
  wgmma_rs<float, float, 168>(d, a, b);
}

}  // namespace gpudnn::ptx
