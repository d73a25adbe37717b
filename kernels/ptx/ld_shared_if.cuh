// A load of 16 bytes of shared memory by some lanes; the others have zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ uint4 ld_shared_if(bool loads, std::uint32_t address) {
  uint4 words = make_uint4(0, 0, 0, 0);
  asm volatile(
      "{\n\t.reg .pred loads;\n\tsetp.ne.u32 loads, %4, 0;\n\t@loads ld.shared.v4.u32 {%0, %1, %2, %3}, [%5];\n\t}"
      : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
      : "r"(static_cast<std::uint32_t>(loads)), "r"(address)
      : "memory");
  return words;
}

}  // namespace gpudnn::ptx
