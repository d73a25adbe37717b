// No instruction: a value that is worked out here, although its first use comes later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ void pin(std::int64_t* value) { asm volatile("" : "+l"(*value)); }
__device__ __forceinline__ void pin(float* value) { asm volatile("" : "+f"(*value)); }

}  // namespace gpudnn::ptx
