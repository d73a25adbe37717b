// Vectors with a value for each channel, as an epilogue reads them: of the data's type, or of floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::gemm {

// The value `offset` bytes from the start of the vector.
template <class T, class C = float>
__device__ __forceinline__ C channel_value(const void* vector, std::int64_t offset, bool is_float) {
  const void* const at = static_cast<const char*>(vector) + offset;
  if constexpr (sizeof(T) == 2) {
    if (is_float) return static_cast<C>(*static_cast<const float*>(at));
  }
  return tile::widen<C>(*static_cast<const T*>(at));
}

// Calls use(group, low, high) with the values of channels 8 * group and 8 * group + 1 for each group of which the first
// `valid` channels have some. `vector` points to the value of the first channel.
template <class V, int kGroups, class Use>
__device__ __forceinline__ void for_each_channel_pair(const char* vector, std::int64_t step, int valid, Use use) {
#pragma unroll
  for (int j = 0; j < kGroups; ++j) {
    if (8 * j >= valid) continue;
    use(j, tile::widen<float>(*reinterpret_cast<const V*>(vector + 8 * j * step)),
        tile::widen<float>(*reinterpret_cast<const V*>(vector + (8 * j + 1) * step)));
  }
}
template <class T, int kGroups, class Use>
__device__ __forceinline__ void for_each_channel_pair(const void* vector, std::int64_t first, std::int64_t step,
                                                      bool is_float, int valid, Use use) {
  const char* const from = static_cast<const char*>(vector) + first * step;
  if (sizeof(T) == 4 || is_float) {
    for_each_channel_pair<float, kGroups>(from, step, valid, use);
  } else {
    for_each_channel_pair<T, kGroups>(from, step, valid, use);
  }
}

}  // namespace gpudnn::kernels::gemm
