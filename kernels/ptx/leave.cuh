// No instruction: a value that is not read before it is written anew is whatever its register holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

__device__ __forceinline__ void leave(float* value) { asm volatile("" : "=f"(*value)); }

}  // namespace gpudnn::ptx
