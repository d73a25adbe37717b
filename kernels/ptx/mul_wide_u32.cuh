// mul.wide.u32: the whole product of two unsigned 32-bit integers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::ptx {

// One instruction. A product of widened integers becomes one of 64 bits, with additions of zeros, where the compiler
// does not see that they were narrow.
__device__ __forceinline__ std::uint64_t mul_wide_u32(std::uint32_t a, std::uint32_t b) {
  std::uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}

}  // namespace gpudnn::ptx
