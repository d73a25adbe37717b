// wgmma.fence, wgmma.commit_group and wgmma.wait_group: the order of asynchronous matrix instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

// Before the first product that reads or writes registers which other instructions wrote.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most kPending of the warpgroup's groups are not done.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

}  // namespace gpudnn::ptx
