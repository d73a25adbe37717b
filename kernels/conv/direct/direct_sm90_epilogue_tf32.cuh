// The direct convolution's epilogue for f32: sums go from registers to memory as they are.
//
// A store of a warp writes 8 channels of 4 positions, whole sectors of 32 bytes. Shared memory has no room for a
// staging area beside a filter of f32, and the products of TF32 leave twice the time for the epilogue that those of 16
// bits do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/direct/direct_sm90.hpp"
#include "kernels/conv/direct/direct_sm90_epilogue.cuh"

namespace gpudnn::kernels::direct {

// The two channels of the output that a thread has sums of, eight apart.
struct ChannelPair {
  std::int64_t first_byte;  // of the first one, in a pixel
  bool exists[2];
  float bias[2];
};
__device__ __forceinline__ ChannelPair channel_pair_of_thread(const Params& p, std::uint32_t row_block) {
  const std::uint32_t first = row_block * p.m_octets * 4;
  const std::uint32_t count = min(p.m_octets, p.all_m_octets - row_block * p.m_octets) * 4;
  const std::uint32_t mine = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  ChannelPair pair;
  pair.first_byte = static_cast<std::int64_t>(first + mine) * 4;
#pragma unroll
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t channel = mine + 8 * i;
    pair.exists[i] = channel < count;
    const auto* const bias =
        static_cast<const char*>(p.bias) + static_cast<std::int64_t>(first + channel) * p.bias_step;
    pair.bias[i] = p.has_bias && pair.exists[i] ? *reinterpret_cast<const float*>(bias) : 0.0f;
  }
  return pair;
}

__device__ __forceinline__ std::int64_t offset_of(const Tile& tile, const std::int64_t (&step)[4]) {
  return tile.w * step[0] + tile.h * step[1] + tile.d * step[2] + tile.n * step[3];
}

// alpha * sum + addend_scale * addend + bias, and the activation. Addends of several positions are under way at once.
template <class I, bool kPlain>
__device__ __forceinline__ void store_positions(const Params& p, const Tile& tile, const ChannelPair& pair,
                                                const float (&sum)[I::kN / 2]) {
  constexpr int kGroups = I::kN / 8;
  constexpr int kTogether = kPlain ? 1 : 2;  // groups
  char* const to = static_cast<char*>(p.out) + pair.first_byte + offset_of(tile, p.out_step);
  const char* const from = static_cast<const char*>(p.addend) + pair.first_byte + offset_of(tile, p.addend_step);
  const auto height = static_cast<std::uint32_t>(min(p.tile_h, p.extent[1] - tile.h));
  const auto width = static_cast<std::uint32_t>(min(p.tile_w, p.extent[0] - tile.w));
  const bool adds = !kPlain && p.addend_scale != 0.0f;
#pragma unroll
  for (int first = 0; first < kGroups; first += kTogether) {
    std::uint32_t row[2 * kTogether];
    std::uint32_t column[2 * kTogether];
    bool inside[2 * kTogether];
    float addend[2 * kTogether][2];
#pragma unroll
    for (int i = 0; i < 2 * kTogether; ++i) {
      const auto position = static_cast<std::uint32_t>((first + i / 2) * 8 + i % 2) + threadIdx.x % 4 * 2;
      row[i] = p.pitch.divmod(position, &column[i]);
      inside[i] = row[i] < height && column[i] < width;
      if constexpr (!kPlain) {
        const char* const at = from + row[i] * p.addend_step[1] + column[i] * p.addend_step[0];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const bool read = adds && inside[i] && pair.exists[c] && first + i / 2 < kGroups;
          addend[i][c] = read ? *reinterpret_cast<const float*>(at + 32 * c) : 0.0f;
        }
      }
    }
    float v[4 * kTogether] = {};
#pragma unroll
    for (int i = 0; i < 4 * kTogether; ++i) {
      const int c = i % 2;
      if (first + i / 4 >= kGroups) continue;
      v[i] = sum[4 * (first + i / 4) + 2 * c + i / 2 % 2];
      if constexpr (!kPlain) {
        v[i] *= p.alpha;
        if (adds) v[i] += p.addend_scale * addend[i / 2][c];
        v[i] += pair.bias[c];
      }
    }
    if constexpr (!kPlain) gemm::activate<1>(p.activation, false, v);
#pragma unroll
    for (int i = 0; i < 2 * kTogether; ++i) {
      if (first + i / 2 >= kGroups) continue;
      char* const at = to + row[i] * p.out_step[1] + column[i] * p.out_step[0];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (inside[i] && pair.exists[c]) *reinterpret_cast<float*>(at + 32 * c) = v[2 * i + c];
      }
    }
  }
}

template <class I>
__device__ __forceinline__ void store_tile_tf32(const Params& p, const Tile& tile, const ChannelPair& pair,
                                                const float (&sum)[I::kN / 2]) {
  if (p.is_plain) {
    store_positions<I, true>(p, tile, pair, sum);
  } else {
    store_positions<I, false>(p, tile, pair, sum);
  }
}

}  // namespace gpudnn::kernels::direct
