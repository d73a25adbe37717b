// prmt: four bytes of two words, chosen by the nibbles of a selector; with bit 3 of a nibble, the byte's sign eight
// times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ std::uint32_t prmt(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}

}  // namespace gpudnn::ptx
