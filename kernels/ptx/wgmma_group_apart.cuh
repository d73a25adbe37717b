// wgmma.wait_group with another text than that of wgmma_group.cuh. ptxas moves a wait before all that it does not
// depend on, such as a softmax that is to run beside the products, but not before a branch. Waits on both sides of one
// stay there if they differ; equal ones the compiler joins in front of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

template <int kPending>
__device__ __forceinline__ void wgmma_wait_group_apart() {
  asm volatile("wgmma.wait_group.sync.aligned %0;  // apart" ::"n"(kPending) : "memory");
}

}  // namespace gpudnn::ptx
