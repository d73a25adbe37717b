// st.global of two and four words: plain stores that stay in one piece.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

__device__ __forceinline__ void st_global(uint2* pointer, uint2 value) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(pointer)), "r"(value.x), "r"(value.y)
               : "memory");
}

__device__ __forceinline__ void st_global(uint4* pointer, uint4 value) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(pointer)), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

}  // namespace gpudnn::ptx
