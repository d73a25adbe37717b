// mul.wide: the whole product of two 32-bit integers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::ptx {

// One instruction, where a product of two widened integers takes four unless the compiler sees that both are signed.
__device__ __forceinline__ std::int64_t mul_wide(std::int32_t a, std::int32_t b) {
  std::int64_t product;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}
__device__ __forceinline__ std::uint64_t mul_wide(std::uint32_t a, std::uint32_t b) {
  std::uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}

}  // namespace gpudnn::ptx
