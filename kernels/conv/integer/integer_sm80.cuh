// Implicit-GEMM convolution of 8-bit integers with mma.sync, m16n8k32.
//
//   sum[m, n] = sum over k of A[m, k] * B[n, k],   m a pixel of y, n a filter of the group, k a (tap, channel)
//
// Data flow of a block: k is cut into chunks of 16 channels of a tap, the last one of a tap filled up with zeros; a
// stage holds 4 chunks of each row. All threads copy with cp.async: a thread has one chunk of each of its rows, so it
// finds the tap once for all of them. A ring of 4 stages. Rows of 64 bytes in shared memory; chunk c of row r lies at
// c ^ (r / 2 % 4), which lets ldmatrix read 8 rows without a bank conflict. Each warp multiplies its part of the tile
// out of registers. The sums go through shared memory, where the stages were, to the epilogue (integer_store.cuh).
//
// Limits: channels of a group in aligned vectors of 16 bytes (kVector 16) or of 4 (kVector 4: four copies a chunk).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/integer/integer_sm80.hpp"
#include "kernels/conv/integer/integer_store.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma_sync_8_bit.cuh"

namespace gpudnn::kernels::integer {

template <int kTile>
struct Sm80Shape {
  static constexpr Sm80Tile kRow = kSm80Tiles[kTile];
  static constexpr int kBM = kRow.bm;
  static constexpr int kBN = kRow.bn;
  static constexpr int kThreads = 32 * kRow.warps_m * kRow.warps_n;
  static constexpr int kRowBytes = kSm80Chunk * kSm80ChunksOfStage;
  static constexpr int kStageBytes = (kBM + kBN) * kRowBytes;
  static constexpr int kPitch = kBN + 4;
  static constexpr int kSumBytes = kBM * kPitch * 4;
  static constexpr int kRowsAt = kSm80Stages * kStageBytes > kSumBytes ? kSm80Stages* kStageBytes : kSumBytes;
  static constexpr int kSharedBytes = kRowsAt + static_cast<int>(sizeof(RowOffsets<kBM>));
  static constexpr int kRowsAtOnce = kThreads / kSm80ChunksOfStage;
  static constexpr int kRowsOfA = kBM / kRowsAtOnce;  // of a thread
  static constexpr int kRowsOfB = kBN / kRowsAtOnce;
  static constexpr int kWarpM = kBM / kRow.warps_m;
  static constexpr int kWarpN = kBN / kRow.warps_n;
  static_assert(kWarpN % 16 == 0 && kWarpM % 16 == 0, "whole fragments");
};

// Of a row in shared memory.
__device__ __forceinline__ std::uint32_t chunk_address(std::uint32_t base, std::uint32_t row, std::uint32_t chunk) {
  return base + row * 64 + ((chunk ^ (row / 2 % 4)) * 16);
}

template <int kVector>
__device__ __forceinline__ void copy_chunk(std::uint32_t to, const std::int8_t* from, const Tensor& tensor,
                                           std::uint32_t first, std::uint32_t c, std::uint32_t channels, bool exists) {
  if constexpr (kVector == 16) {
    ptx::cp_async<16>(to, exists ? from + tensor.channel(first + c) : from, exists ? 16 : 0);
  } else {
#pragma unroll
    for (std::uint32_t i = 0; i < 16; i += 4) {
      const bool has = exists && c + i < channels;
      ptx::cp_async<4>(to + i, has ? from + tensor.channel(first + c + i) : from, has ? 4 : 0);
    }
  }
}

template <class S, int kVector>
struct Sm80Loader {
  const Params& p;
  std::uint32_t shared;
  std::uint32_t row, chunk;
  std::uint32_t first_channel;
  const std::int8_t* image[S::kRowsOfA];
  std::int32_t corner[S::kRowsOfA][3];
  const std::int8_t* filter[S::kRowsOfB];
  bool has_filter[S::kRowsOfB];

  __device__ __forceinline__ Sm80Loader(const Params& params, std::uint32_t address, std::uint32_t first_pixel,
                                        std::uint32_t first_filter, std::uint32_t group)
      : p(params),
        shared(address),
        row(threadIdx.x / 4),
        chunk(threadIdx.x % 4),
        first_channel(group * params.channels) {
#pragma unroll
    for (int i = 0; i < S::kRowsOfA; ++i) {
      const std::uint32_t m = first_pixel + row + static_cast<std::uint32_t>(i * S::kRowsAtOnce);
      const Pixel pixel = pixel_of(p, min(m, p.pixels - 1));
      image[i] = p.x + pixel.image * p.x_at.image;
#pragma unroll
      for (int axis = 0; axis < 3; ++axis) corner[i][axis] = pixel.at[axis] * p.stride[axis] - p.pad[axis];
      if (m >= p.pixels) corner[i][0] = INT32_MIN / 2;  // outside under every tap
    }
#pragma unroll
    for (int i = 0; i < S::kRowsOfB; ++i) {
      const std::uint32_t n = first_filter + row + static_cast<std::uint32_t>(i * S::kRowsAtOnce);
      has_filter[i] = n < p.filters;
      filter[i] =
          p.w + p.w_offset + static_cast<std::int64_t>(group * p.filters + min(n, p.filters - 1)) * p.w_at.image;
    }
  }

  __device__ __forceinline__ void load(std::uint32_t k_tile, std::uint32_t stage) const {
    const std::uint32_t k = k_tile * kSm80ChunksOfStage + chunk;
    const bool exists = k < p.chunks;
    std::uint32_t chunk_of_tap;
    std::uint32_t tap[3];
    const std::uint32_t number = p.chunks_of_tap.divmod(k, &chunk_of_tap);
    tap[2] = p.taps[1].divmod(p.taps[0].divmod(number, &tap[0]), &tap[1]);
    const std::uint32_t c = chunk_of_tap * kSm80Chunk;
    const std::uint32_t base = shared + stage * S::kStageBytes;
    std::int32_t shift[3];
    std::int64_t w_offset = 0;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      shift[axis] = static_cast<std::int32_t>(tap[axis]) * p.dilation[axis];
      w_offset += static_cast<std::int32_t>(tap[axis]) * p.w_at.spatial[axis];
    }
#pragma unroll
    for (int i = 0; i < S::kRowsOfA; ++i) {
      bool inside = exists;
      std::int64_t offset = 0;
#pragma unroll
      for (int axis = 0; axis < 3; ++axis) {
        const std::int32_t at = corner[i][axis] + shift[axis];
        inside = inside && at >= 0 && at < p.x_extent[axis];
        offset += at * p.x_at.spatial[axis];
      }
      copy_chunk<kVector>(chunk_address(base, row + static_cast<std::uint32_t>(i * S::kRowsAtOnce), chunk),
                          inside ? image[i] + offset : p.x, p.x_at, first_channel, c, p.channels, inside);
    }
#pragma unroll
    for (int i = 0; i < S::kRowsOfB; ++i) {
      const bool has = exists && has_filter[i];
      copy_chunk<kVector>(
          chunk_address(base + S::kBM * S::kRowBytes, row + static_cast<std::uint32_t>(i * S::kRowsAtOnce), chunk),
          has ? filter[i] + w_offset : p.w, p.w_at, 0, c, p.channels, has);
    }
  }
};

template <class S, bool kUnsigned>
__device__ __forceinline__ void multiply_stage(std::uint32_t base, std::uint32_t first_m, std::uint32_t first_n,
                                               std::int32_t (&sum)[S::kWarpM / 16][S::kWarpN / 8][4]) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t step = 0; step < 2; ++step) {
    std::uint32_t a[S::kWarpM / 16][4];
    std::uint32_t b[S::kWarpN / 16][4];
#pragma unroll
    for (int i = 0; i < S::kWarpM / 16; ++i) {
      const std::uint32_t row = first_m + static_cast<std::uint32_t>(i) * 16 + lane % 16;
      ptx::ldmatrix_x4(chunk_address(base, row, step * 2 + lane / 16), a[i]);
    }
#pragma unroll
    for (int j = 0; j < S::kWarpN / 16; ++j) {
      const std::uint32_t row = first_n + static_cast<std::uint32_t>(j) * 16 + lane / 16 * 8 + lane % 8;
      ptx::ldmatrix_x4(chunk_address(base + S::kBM * S::kRowBytes, row, step * 2 + lane / 8 % 2), b[j]);
    }
#pragma unroll
    for (int i = 0; i < S::kWarpM / 16; ++i) {
#pragma unroll
      for (int j = 0; j < S::kWarpN / 8; ++j) {
        ptx::mma_m16n8k32<kUnsigned>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

template <int kTile, int kVector, bool kUnsigned>
__global__ void __launch_bounds__(Sm80Shape<kTile>::kThreads) integer_sm80(const __grid_constant__ Params p) {
  using S = Sm80Shape<kTile>;
  extern __shared__ __align__(128) unsigned char raw[];
  const std::uint32_t shared = ptx::shared_address(raw);
  const std::uint32_t n_tiles = (p.filters + S::kBN - 1) / S::kBN;
  const std::uint32_t first_pixel = blockIdx.x * S::kBM;
  const std::uint32_t first_filter = blockIdx.y % n_tiles * S::kBN;
  const std::uint32_t group = blockIdx.y / n_tiles + blockIdx.z * (gridDim.y / n_tiles);
  if (group >= p.groups) return;

  const Sm80Loader<S, kVector> loader(p, shared, first_pixel, first_filter, group);
  const std::uint32_t k_tiles = (p.chunks + kSm80ChunksOfStage - 1) / kSm80ChunksOfStage;
#pragma unroll
  for (std::uint32_t k = 0; k + 1 < kSm80Stages; ++k) {
    if (k < k_tiles) loader.load(k, k);
    ptx::cp_async_commit_group();
  }
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t first_m = warp / S::kRow.warps_n * S::kWarpM;
  const std::uint32_t first_n = warp % S::kRow.warps_n * S::kWarpN;
  std::int32_t sum[S::kWarpM / 16][S::kWarpN / 8][4] = {};
  for (std::uint32_t k = 0; k < k_tiles; ++k) {
    ptx::cp_async_wait_group<kSm80Stages - 2>();
    __syncthreads();
    const std::uint32_t ahead = k + kSm80Stages - 1;
    if (ahead < k_tiles) loader.load(ahead, ahead % kSm80Stages);
    ptx::cp_async_commit_group();
    multiply_stage<S, kUnsigned>(shared + k % kSm80Stages * S::kStageBytes, first_m, first_n, sum);
  }
  ptx::cp_async_wait_group<0>();
  __syncthreads();
  auto* const staged = reinterpret_cast<std::int32_t*>(raw);
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < S::kWarpM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < S::kWarpN / 8; ++j) {
      const std::uint32_t row = first_m + static_cast<std::uint32_t>(i) * 16 + lane / 4;
      const std::uint32_t column = first_n + static_cast<std::uint32_t>(j) * 8 + lane % 4 * 2;
      *reinterpret_cast<int2*>(&staged[row * S::kPitch + column]) = make_int2(sum[i][j][0], sum[i][j][1]);
      *reinterpret_cast<int2*>(&staged[(row + 8) * S::kPitch + column]) = make_int2(sum[i][j][2], sum[i][j][3]);
    }
  }
  __syncthreads();
  store_tile<S::kBM, S::kBN, S::kPitch, S::kThreads>(p, staged, reinterpret_cast<RowOffsets<S::kBM>*>(raw + S::kRowsAt),
                                                     first_pixel, first_filter, group);
}

}  // namespace gpudnn::kernels::integer
