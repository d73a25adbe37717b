// cvt to and from half, given by its bits. To half: rounded to nearest even.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ float cvt_f32_f16(std::uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
// Both halves of a word, the low one first.
__device__ __forceinline__ float2 cvt_f32_f16x2(std::uint32_t word) {
  float2 values;
  asm("{.reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
      : "=f"(values.x), "=f"(values.y)
      : "r"(word));
  return values;
}

__device__ __forceinline__ std::uint16_t cvt_rn_f16_f32(float value) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ std::uint16_t cvt_rn_f16_f64(double value) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(value));
  return bits;
}
__device__ __forceinline__ std::uint32_t cvt_rn_f16x2_f32(float high, float low) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return __byte_perm(cvt_rn_f16_f32(low), cvt_rn_f16_f32(high), 0x5410);  // the instruction came with sm_80
#endif
}

}  // namespace gpudnn::ptx
