// The block's dynamic shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::tile {

__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ uint4 gpudnn_dynamic_shared[];  // of 16-byte units for the sake of the alignment
  return reinterpret_cast<unsigned char*>(gpudnn_dynamic_shared);
}

}  // namespace gpudnn::tile
