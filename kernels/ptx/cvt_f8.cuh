// cvt to and from 8-bit floats, given by their bits, two at a time. To 8 bits: rounded to nearest even, held at the
// largest finite value; a NaN stays one. sm_89 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ std::uint16_t cvt_rn_satfinite_e4m3x2_f32(float high, float low) {
  std::uint16_t bits = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
#else
  __trap();
#endif
  return bits;
}

__device__ __forceinline__ std::uint16_t cvt_rn_satfinite_e5m2x2_f32(float high, float low) {
  std::uint16_t bits = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
#else
  __trap();
#endif
  return bits;
}

// Two halves in a word, the low one first. Each 8-bit float is a half.
__device__ __forceinline__ std::uint32_t cvt_rn_f16x2_e4m3x2(std::uint16_t bits) {
  std::uint32_t word = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(word) : "h"(bits));
#else
  __trap();
#endif
  return word;
}

__device__ __forceinline__ std::uint32_t cvt_rn_f16x2_e5m2x2(std::uint16_t bits) {
  std::uint32_t word = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(word) : "h"(bits));
#else
  __trap();
#endif
  return word;
}

}  // namespace gpudnn::ptx
