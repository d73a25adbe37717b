// %clusterid and %nclusterid, along x: the block's cluster among those of the grid. A block of no cluster is one of its
// own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ std::uint32_t clusterid() {
  std::uint32_t id;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(id));
  return id;
}

__device__ __forceinline__ std::uint32_t nclusterid() {
  std::uint32_t count;
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return count;
}

}  // namespace gpudnn::ptx
