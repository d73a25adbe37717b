// prmt: any four bytes of two words, or their signs, by a selector of four digits. Every architecture.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::ptx {

// A digit's lower three bits name a byte, of `a` or of `b`; with the fourth the byte's sign takes all of its bits.
template <std::uint32_t kSelector>
__device__ __forceinline__ std::uint32_t prmt(std::uint32_t a, std::uint32_t b) {
  std::uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(kSelector));
  return bytes;
}

}  // namespace gpudnn::ptx
