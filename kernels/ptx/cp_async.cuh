// cp.async: copies from global to shared memory that bypass registers and complete in the background. sm_80 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// Copies `source_bytes` (kBytes or 0) from global to shared memory and fills kBytes up with zeros. With 0, nothing is
// read, but the address must be aligned all the same. 16 bytes go past the L1, which has no use for them.
template <int kBytes>
__device__ __forceinline__ void cp_async(std::uint32_t shared, const void* global, std::uint32_t source_bytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async moves 4, 8 or 16 bytes");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(__cvta_generic_to_global(global)),
                 "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(__cvta_generic_to_global(global)),
                 "n"(kBytes), "r"(source_bytes)
                 : "memory");
  }
#else
  __trap();
#endif
}

// Closes the group of the copies that this thread started since the last one.
// 16 bytes that may stay in the L1 cache: other threads read them too.
__device__ __forceinline__ void cp_async_ca_16(std::uint32_t shared, const void* global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(__cvta_generic_to_global(global))
               : "memory");
#else
  __trap();
#endif
}

__device__ __forceinline__ void cp_async_commit_group() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  __trap();
#endif
}

// Waits until at most the kPending youngest groups of this thread are under way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#else
  __trap();
#endif
}

}  // namespace gpudnn::ptx
