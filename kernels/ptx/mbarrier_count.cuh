// mbarrier.arrive with a count: arrivals of several threads at once. sm_90 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace gpudnn::ptx {

__device__ __forceinline__ void mbarrier_arrive_count(std::uint64_t* barrier, std::uint32_t count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

}  // namespace gpudnn::ptx
