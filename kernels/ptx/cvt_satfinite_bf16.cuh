// cvt of two floats to bfloat16, rounded to nearest even; what would become infinite becomes the largest finite number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// From sm_90.
__device__ __forceinline__ std::uint32_t cvt_rn_satfinite_bf16x2_f32(float high, float low) {
  std::uint32_t word;
  asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

}  // namespace gpudnn::ptx
