// Quads: four sums of a thread, as wgmma leaves them, which stay together in a workspace until the splits of a
// reduction are added up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace gpudnn::tile {

__device__ __forceinline__ void add_to(float4* sum, const float4& more) {
  sum->x += more.x;
  sum->y += more.y;
  sum->z += more.z;
  sum->w += more.w;
}

// Splits lane, lane + lanes and so on of a quad, `step` quads apart.
__device__ __forceinline__ float4 sum_of_splits(const float4* first, std::size_t step, std::uint32_t splits, int lane,
                                                int lanes) {
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (auto s = static_cast<std::uint32_t>(lane); s < splits; s += static_cast<std::uint32_t>(lanes)) {
    add_to(&sum, first[s * step]);
  }
  return sum;
}

// Adds up the lanes of a block's quads as a tree; lane 0 has the whole. Thread lane * columns + column is a column's.
template <int kThreads>
__device__ __forceinline__ float4 sum_of_lanes(float4 sum, int lane, int lanes, int columns) {
  __shared__ float4 partial[kThreads];
  partial[threadIdx.x] = sum;
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) {
      add_to(&sum, partial[threadIdx.x + static_cast<unsigned>(half * columns)]);
      partial[threadIdx.x] = sum;
    }
  }
  return sum;
}

}  // namespace gpudnn::tile
