// wgmma.mma_async of 64 x 96. See wgmma_shape.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

// Transposed operands are MN-major in shared memory.
template <class T, int kTransposeA, int kTransposeB>
__device__ __forceinline__ void wgmma_n96(float (&d)[48], std::uint64_t a, std::uint64_t b) {
  wgmma_ss<T, T, 96, static_cast<Major>(kTransposeA), static_cast<Major>(kTransposeB)>(d, a, b);
}

}  // namespace gpudnn::ptx
