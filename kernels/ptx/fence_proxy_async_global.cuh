// fence.proxy.async.global: what a thread has seen of ordinary writes to global memory comes before its copies by TMA.
// sm_90 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

__device__ __forceinline__ void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

}  // namespace gpudnn::ptx
