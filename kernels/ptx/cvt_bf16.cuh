// cvt to bfloat16, given by its bits: rounded to nearest even.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ std::uint16_t cvt_rn_bf16_f32(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  // The instruction came with sm_80. A carry into the exponent is right, up to infinity.
  const std::uint32_t bits = __float_as_uint(value);
  return value != value ? 0x7fff : static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
#endif
}
__device__ __forceinline__ std::uint32_t cvt_rn_bf16x2_f32(float high, float low) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return __byte_perm(cvt_rn_bf16_f32(low), cvt_rn_bf16_f32(high), 0x5410);
#endif
}

}  // namespace gpudnn::ptx
