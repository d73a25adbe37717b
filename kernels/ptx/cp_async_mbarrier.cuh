// cp.async.mbarrier.arrive: copies of cp.async tell an mbarrier that they have completed. sm_80 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// Arrives at the barrier at this shared address when all copies that this thread started before have completed. The
// arrival is one of those that the barrier was initialised for.
__device__ __forceinline__ void cp_async_mbarrier_arrive_noinc(std::uint32_t barrier) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
#else
  __trap();
#endif
}

}  // namespace gpudnn::ptx
