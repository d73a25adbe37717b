// cp.async.bulk.prefetch: a contiguous run of bytes of global memory into the L2. A hint: nothing happens before sm_90.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// Address and `bytes` are multiples of 16.
__device__ __forceinline__ void bulk_prefetch(const void* global, std::uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(global)), "r"(bytes)
               : "memory");
#endif
}

}  // namespace gpudnn::ptx
