// barrier.cluster.arrive.relaxed: an arrival at the cluster's barrier that waits for no memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

// Orders no memory but initialised mbarriers, after fence_mbarrier_init: a release waits for all that is under way.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

}  // namespace gpudnn::ptx
