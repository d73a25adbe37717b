// cp.async.bulk and cp.reduce.async.bulk: a contiguous run of bytes from shared to global memory by TMA, stored or
// added as floats. sm_90 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace gpudnn::ptx {

// Both addresses and `bytes` are multiples of 16. Part of the thread's open group (tma.cuh).
__device__ __forceinline__ void bulk_store(void* global, const void* shared, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(global)),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}
// The additions of one call are in no order among themselves and with others that are not done.
__device__ __forceinline__ void bulk_reduce_add_f32(void* global, const void* shared, std::uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(global)),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}
// Waits until at most kPending of the thread's groups are not done; what the others wrote is then seen by the thread.
template <int kPending>
__device__ __forceinline__ void bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
// Orders this thread's accesses of global memory before those that TMA makes for it later, and the other way round.
// The fence of all spaces would wait for a membar too.
__device__ __forceinline__ void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

}  // namespace gpudnn::ptx
