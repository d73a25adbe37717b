// Implicit-GEMM convolution of 8-bit integers with dp4a: everything that integer.hpp says, from sm_61 on.
//
//   sum[m, n] = sum over words k of A[m, k] . B[n, k],   m a pixel of y, n a filter of the group,
//   a word four channels of a tap
//
// Data flow of a block of 256 threads, a tile of 64 pixels and 64 filters: for each step of 8 words, a thread loads 2
// words of A and 2 of B from global memory into registers while the step before is multiplied, then puts them into
// shared memory, rows of which are words and columns pixels or filters. A thread has 4 x 4 sums. They go through shared
// memory to the epilogue (integer_store.cuh). Words are loaded as such where channels come in aligned words, else byte
// by byte.
//
// Limits: 32-bit counts of pixels and products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/integer/integer_store.cuh"
#include "kernels/ptx/dp4a.cuh"

namespace gpudnn::kernels::integer {

constexpr int kSimtTile = 64;
constexpr int kSimtWords = 8;
constexpr int kSimtThreads = 256;
constexpr int kSimtPitch = kSimtTile + 4;

struct alignas(16) SimtShared {
  union {
    struct {
      std::uint32_t a[kSimtWords][kSimtPitch];
      std::uint32_t b[kSimtWords][kSimtPitch];
    } words;
    std::int32_t sums[kSimtTile][kSimtPitch];
  };
  RowOffsets<kSimtTile> rows;
};

// Channels c to c + 3 at a pixel or tap, zero beyond the group's.
template <bool kWholeWords>
__device__ __forceinline__ std::uint32_t load_word(const std::int8_t* at, const Tensor& tensor, std::uint32_t first,
                                                   std::uint32_t c, std::uint32_t channels) {
  if constexpr (kWholeWords) {
    return *reinterpret_cast<const std::uint32_t*>(at + tensor.channel(first + c));
  } else {
    std::uint32_t word = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      if (c + i < channels) {
        word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(at[tensor.channel(first + c + i)])) << (8 * i);
      }
    }
    return word;
  }
}

template <bool kUnsigned, bool kWholeWords>
__global__ void __launch_bounds__(kSimtThreads) integer_simt(const __grid_constant__ Params p) {
  __shared__ SimtShared shared;
  const std::uint32_t n_tiles = (p.filters + kSimtTile - 1) / kSimtTile;
  const std::uint32_t first_pixel = blockIdx.x * kSimtTile;
  const std::uint32_t first_filter = blockIdx.y % n_tiles * kSimtTile;
  const std::uint32_t group = blockIdx.y / n_tiles + blockIdx.z * (gridDim.y / n_tiles);
  if (group >= p.groups) return;

  const std::uint32_t row = threadIdx.x / 4;
  const std::uint32_t word = threadIdx.x % 4 * 2;
  const bool has_pixel = first_pixel + row < p.pixels;
  const Pixel pixel = pixel_of(p, min(first_pixel + row, p.pixels - 1));
  std::int32_t corner[3];
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) corner[axis] = pixel.at[axis] * p.stride[axis] - p.pad[axis];
  const std::int8_t* const image = p.x + pixel.image * p.x_at.image;
  const bool has_filter = first_filter + row < p.filters;
  const std::int8_t* const filter =
      p.w + p.w_offset +
      static_cast<std::int64_t>(group * p.filters + min(first_filter + row, p.filters - 1)) * p.w_at.image;
  const std::uint32_t first_channel = group * p.channels;

  std::uint32_t next_a[2];
  std::uint32_t next_b[2];
  const auto load = [&](std::uint32_t step) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      next_a[i] = next_b[i] = 0;
      const std::uint32_t k = step * kSimtWords + word + static_cast<std::uint32_t>(i);
      if (k >= p.chunks) continue;
      std::uint32_t chunk;
      std::uint32_t tap[3];
      const std::uint32_t number = p.chunks_of_tap.divmod(k, &chunk);
      tap[2] = p.taps[1].divmod(p.taps[0].divmod(number, &tap[0]), &tap[1]);
      bool inside = has_pixel;
      std::int64_t x_offset = 0;
      std::int64_t w_offset = 0;
#pragma unroll
      for (int axis = 0; axis < 3; ++axis) {
        const auto t = static_cast<std::int32_t>(tap[axis]);
        const std::int32_t at = corner[axis] + t * p.dilation[axis];
        inside = inside && at >= 0 && at < p.x_extent[axis];
        x_offset += at * p.x_at.spatial[axis];
        w_offset += t * p.w_at.spatial[axis];
      }
      if (inside) next_a[i] = load_word<kWholeWords>(image + x_offset, p.x_at, first_channel, chunk * 4, p.channels);
      if (has_filter) next_b[i] = load_word<kWholeWords>(filter + w_offset, p.w_at, 0, chunk * 4, p.channels);
    }
  };

  std::int32_t sum[4][4] = {};
  const std::uint32_t m = threadIdx.x / 16 * 4;
  const std::uint32_t n = threadIdx.x % 16 * 4;
  const std::uint32_t steps = (p.chunks + kSimtWords - 1) / kSimtWords;
  load(0);
  for (std::uint32_t step = 0; step < steps; ++step) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      shared.words.a[word + static_cast<std::uint32_t>(i)][row] = next_a[i];
      shared.words.b[word + static_cast<std::uint32_t>(i)][row] = next_b[i];
    }
    __syncthreads();
    if (step + 1 < steps) load(step + 1);
#pragma unroll
    for (int k = 0; k < kSimtWords; ++k) {
      const uint4 a = *reinterpret_cast<const uint4*>(&shared.words.a[k][m]);
      const uint4 b = *reinterpret_cast<const uint4*>(&shared.words.b[k][n]);
      const std::uint32_t rows[4] = {a.x, a.y, a.z, a.w};
      const std::uint32_t columns[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = ptx::dp4a<kUnsigned>(rows[i], columns[j], sum[i][j]);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<int4*>(&shared.sums[m + static_cast<std::uint32_t>(i)][n]) =
        make_int4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
  }
  __syncthreads();
  store_tile<kSimtTile, kSimtTile, kSimtPitch, kSimtThreads>(p, &shared.sums[0][0], &shared.rows, first_pixel,
                                                             first_filter, group);
}

}  // namespace gpudnn::kernels::integer
