// The Hopper implicit GEMM's way out where C's columns are the rows of the product: a warpgroup's fragments hold 64
// columns of C for all pixels of the tile, and are turned on their way into the staging area.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm_sm90_epilogue.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"

namespace gpudnn::kernels::sm90 {

// Of four 8 x 8 matrices, two groups of 8 pixels by two groups of 8 columns: the place in the staging area of the row
// that this lane names. `group` is the first group of pixels.
__device__ __forceinline__ std::uint32_t staged_turned(unsigned char* staging, int group) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x % 128 / 32);
  return ptx::shared_address(staging) +
         static_cast<std::uint32_t>(staged(8 * (group + lane / 16) + lane % 8, 2 * warp + lane / 8 % 2));
}

// alpha * sum + addend_scale * addend + bias, and the activation.
template <class I>
__device__ __forceinline__ void blend_turned(const Params& p, const Work& work, unsigned char* staging, int barrier,
                                             const ColumnChunk& columns, float (&v)[I::kBN / 2]) {
  using T = typename I::T;
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < I::kBN / 2; ++i) v[i] *= p.alpha;
  if (p.addend_scale != 0.0f) {
    // In by rows, out by fragments.
#pragma unroll 1
    for (int i = 0; i < I::kBN / 16; ++i) {
      const int at = thread / 8 + 16 * i;
      const std::int64_t row = row_offset<I>(p, work, work.m * I::kRowsOfC + static_cast<std::uint32_t>(at),
                                             p.addend_step, p.addend_is_even);
      if (thread % 8 * 8 >= columns.valid || row < 0) continue;
      const auto* const from =
          reinterpret_cast<const uint4*>(static_cast<const char*>(p.addend) + row + columns.offset + thread % 8 * 16);
      *reinterpret_cast<uint4*>(staging + staged(at, thread % 8)) = *from;
    }
    ptx::barrier_sync(barrier, 128);
#pragma unroll
    for (int j = 0; j < I::kBN / 8; j += 2) {
      std::uint32_t words[4];
      ptx::ldmatrix_x4_trans(staged_turned(staging, j), words);
#pragma unroll
      for (int i = 0; i < 4; ++i) add_pair<T>(p.addend_scale, words[i], &v[4 * j + 2 * i], &v[4 * j + 2 * i + 1]);
    }
    ptx::barrier_sync(barrier, 128);
  }
  if (p.has_bias) {
    const int column = thread / 32 * 16 + lane / 4;
    const char* const bias =
        static_cast<const char*>(p.bias) +
        (static_cast<std::int64_t>(work.group) * p.group_columns + columns.first + column) * p.bias_step;
    const bool has_low = column < columns.valid;
    const bool has_high = column + 8 < columns.valid;
    const float low = has_low ? tile::widen<float>(*reinterpret_cast<const T*>(bias)) : 0.0f;
    const float high = has_high ? tile::widen<float>(*reinterpret_cast<const T*>(bias + 8 * p.bias_step)) : 0.0f;
#pragma unroll
    for (int i = 0; i < I::kBN / 2; ++i) v[i] += i % 4 < 2 ? low : high;
  }
  if (p.relu) {
#pragma unroll
    for (int i = 0; i < I::kBN / 2; ++i) v[i] = rectify(p, v[i]);
  }
}

template <class I>
__device__ __forceinline__ void stage_turned(unsigned char* staging, const float (&v)[I::kBN / 2]) {
  using T = typename I::T;
  static_assert(I::kBN % 16 == 0, "groups of 8 pixels go in pairs");
#pragma unroll
  for (int j = 0; j < I::kBN / 8; j += 2) {
    ptx::stmatrix_x4_trans(staged_turned(staging, j), pack_pair<T>(v[4 * j], v[4 * j + 1]),
                           pack_pair<T>(v[4 * j + 2], v[4 * j + 3]), pack_pair<T>(v[4 * j + 4], v[4 * j + 5]),
                           pack_pair<T>(v[4 * j + 6], v[4 * j + 7]));
  }
}

// 64 columns of all pixels of the tile, from the staging area to rows in memory.
template <class I>
__device__ __forceinline__ void store_rows(const Params& p, const Work& work, const unsigned char* staging,
                                           const ColumnChunk& columns) {
  const int thread = static_cast<int>(threadIdx.x % 128);
#pragma unroll 1
  for (int i = 0; i < I::kBN / 16; ++i) {
    const int at = thread / 8 + 16 * i;
    const std::int64_t row =
        row_offset<I>(p, work, work.m * I::kRowsOfC + static_cast<std::uint32_t>(at), p.c_step, p.c_is_even);
    if (thread % 8 * 8 >= columns.valid || row < 0) continue;
    const uint4 bits = *reinterpret_cast<const uint4*>(staging + staged(at, thread % 8));
    ptx::st_global(reinterpret_cast<uint4*>(static_cast<char*>(p.c) + row + columns.offset + thread % 8 * 16), bits);
  }
}

// 64 columns, chunk number `chunk` of the tile.
template <class I>
__device__ __forceinline__ void store_turned(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                             int chunk, float (&sum)[I::kBN / 2], int* area) {
  const int barrier = kStagingBarrier + consumer;
  const ColumnChunk columns = column_chunk<I>(p, work, chunk);
  if (columns.valid <= 0) return;
  // Two areas in turn: whoever writes to one has passed a barrier that its last readers reached before.
  unsigned char* const staging = shared.staging[consumer][*area];
  if (!p.is_plain) blend_turned<I>(p, work, staging, barrier, columns, sum);
  stage_turned<I>(staging, sum);
  if (p.stores_boxes) {
    store_box(p, staging, barrier, columns, work.m * I::kRowsOfC);
  } else {
    ptx::barrier_sync(barrier, 128);
    store_rows<I>(p, work, staging, columns);
  }
  *area ^= 1;
}

template <class I>
__device__ __forceinline__ void store_swapped(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                              float (&sum)[I::kRowBlocks][I::kBN / 2], int* area) {
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
    store_turned<I>(p, shared, work, consumer, consumer * I::kRowBlocks + block, sum[block], area);
  }
}

}  // namespace gpudnn::kernels::sm90
