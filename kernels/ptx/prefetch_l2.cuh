// prefetch.global.L2: asks for the line of an address, and waits for nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

__device__ __forceinline__ void prefetch_l2(const void* pointer) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(pointer)));
}

}  // namespace gpudnn::ptx
