// cp.async.bulk from shared memory of this block to that of a block of its cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace gpudnn::ptx {

// `to` and `barrier`, which counts the bytes, come from mapa; all are multiples of 16 bytes.
__device__ __forceinline__ void bulk_copy_cluster(std::uint32_t to, const void* from, std::uint32_t bytes,
                                                  std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(shared_address(from)), "r"(bytes), "r"(barrier)
               : "memory");
}

}  // namespace gpudnn::ptx
