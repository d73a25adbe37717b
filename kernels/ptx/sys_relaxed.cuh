// Loads and stores that other devices see, without an order among them: each word of 8 bytes is whole. sm_70 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

// Two words at a multiple of 16.
__device__ __forceinline__ ulonglong2 ld_relaxed_sys_v2(const void* pointer) {
  ulonglong2 words;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(words.x), "=l"(words.y)
               : "l"(__cvta_generic_to_global(pointer))
               : "memory");
  return words;
}

__device__ __forceinline__ void st_relaxed_sys_v2(void* pointer, ulonglong2 words) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(pointer)), "l"(words.x),
               "l"(words.y)
               : "memory");
}

}  // namespace gpudnn::ptx
