// An instruction of no operation that reads and writes a 16-bit value: what is made of the value is made after it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ void pin(std::uint16_t& value) { asm volatile("" : "+h"(value)::"memory"); }

}  // namespace gpudnn::ptx
