// No instruction: a value that must be there although nothing uses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ void keep(std::uint32_t value) { asm volatile("" ::"r"(value)); }

}  // namespace gpudnn::ptx
