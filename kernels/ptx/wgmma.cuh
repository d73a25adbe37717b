// wgmma.mma_async with both operands in shared memory, or TF32 with A in registers: names that the convolution kernels
// have for shapes of wgmma_shape.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma_shape.cuh"

namespace gpudnn::ptx {

// Transposed operands are MN-major in shared memory.
template <class T, int kN, int kTransposeA, int kTransposeB>
__device__ __forceinline__ void wgmma(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b) {
  wgmma_ss<T, T, kN, static_cast<Major>(kTransposeA), static_cast<Major>(kTransposeB)>(d, a, b);
}

template <int kN>
__device__ __forceinline__ void wgmma_tf32_registers(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b) {
  wgmma_rs<float, float, kN>(d, a, b);
}

}  // namespace gpudnn::ptx
