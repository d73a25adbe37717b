// The tensor cores' product of 16 x 16 by 16 x 8 elements of half or bfloat16, by the type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/ptx/mma_sync.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::tile {

template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  if constexpr (std::is_same_v<T, Half>) {
    ptx::mma_m16n8k16_f16(sums, a, b0, b1);
  } else {
    ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
  }
}

}  // namespace gpudnn::tile
