// Stretches of global memory through shared memory in 16-byte pieces, whatever element they begin at: in shared memory
// a stretch begins as far from a 16-byte boundary as in global memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_pipeline.h>

#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

// Elements from the last 16-byte boundary to `pointer`.
template <class T>
__device__ __forceinline__ int skew_of(const T* pointer) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(pointer) / sizeof(T) % tile::kPackWidth<T>);
}

// The whole block starts the copy of `count` elements to `to`, whose skew is that of `from`. Complete after
// stage_wait().
template <class T>
__device__ __forceinline__ void stage_stretch(const T* from, std::int32_t count, T* to) {
  constexpr int N = tile::kPackWidth<T>;
  const int skew = skew_of(from);
  const std::int32_t head = min(skew == 0 ? 0 : N - skew, count);
  const std::int32_t packs = (count - head) / N;
  const std::int32_t tail = head + packs * N;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  for (std::int32_t i = thread; i < packs; i += static_cast<std::int32_t>(blockDim.x)) {
    __pipeline_memcpy_async(to + head + i * N, from + head + i * N, 16);
  }
  if (thread < head) to[thread] = from[thread];
  if (tail + thread < count) to[tail + thread] = from[tail + thread];
}

__device__ __forceinline__ void stage_wait() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

// The whole block copies `count` elements from shared memory to `to`, of the same skew.
template <class T>
__device__ __forceinline__ void unstage_stretch(const T* from, std::int32_t count, T* to) {
  constexpr int N = tile::kPackWidth<T>;
  const int skew = skew_of(to);
  const std::int32_t head = min(skew == 0 ? 0 : N - skew, count);
  const std::int32_t packs = (count - head) / N;
  const std::int32_t tail = head + packs * N;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  for (std::int32_t i = thread; i < packs; i += static_cast<std::int32_t>(blockDim.x)) {
    tile::store_pack<T, N>(to + head + i * N, tile::load_pack<T, N>(from + head + i * N));
  }
  if (thread < head) to[thread] = from[thread];
  if (tail + thread < count) to[tail + thread] = from[tail + thread];
}

}  // namespace gpudnn::kernels
