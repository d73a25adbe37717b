// st.async of 4 and 8 bytes, as st_async.cuh has it of 16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/st_async.cuh"

namespace gpudnn::ptx {

__device__ __forceinline__ void st_async(std::uint32_t address, float value, std::uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(address), "f"(value),
               "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void st_async(std::uint32_t address, const float2& value, std::uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
               "f"(value.x), "f"(value.y), "r"(barrier)
               : "memory");
}

}  // namespace gpudnn::ptx
