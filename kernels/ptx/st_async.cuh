// st.async of 16 bytes: to shared memory of any block of the cluster, whose barrier counts them as they arrive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// Both addresses come from mapa. It waits for nothing and orders nothing but itself.
__device__ __forceinline__ void st_async(std::uint32_t address, const float4& value, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
      : "memory");
}

}  // namespace gpudnn::ptx
