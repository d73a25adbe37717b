// dp4a: the dot product of two words of four 8-bit integers, added to a 32-bit integer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// a signed, or unsigned; b signed.
template <bool kUnsignedA>
__device__ __forceinline__ std::int32_t dp4a(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  if constexpr (kUnsignedA) {
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  } else {
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  }
  return sum;
}

}  // namespace gpudnn::ptx
