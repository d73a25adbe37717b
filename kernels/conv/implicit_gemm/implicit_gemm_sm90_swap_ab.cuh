// The Hopper implicit GEMM's epilogue where C's columns are the rows of the product: a warpgroup's fragments hold 64
// columns of C for all pixels of the tile, and are turned on their way into the staging area.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_epilogue.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"

namespace gpudnn::kernels::sm90 {

// --- the staging area, by rows ---------------------------------------------------------------------------------------

// Calls move(place in the staging area, byte of the tensor) for each pixel's 16 bytes that are this thread's: 8 threads
// share the columns of a pixel.
template <class I, class Move>
__device__ __forceinline__ void for_each_vector(const Params& p, const Work& work, const ColumnChunk& columns,
                                                const std::int64_t (&step)[4], bool is_even, Move move) {
  constexpr int kPixels = I::kThreadsOfBox / 8;  // at once
  constexpr int kElements = 16 / static_cast<int>(sizeof(typename I::T));
  const int thread = static_cast<int>(threadIdx.x % I::kThreadsOfBox);
#pragma unroll 1
  for (int i = 0; i < I::kBN / kPixels; ++i) {
    const int at = thread / 8 + kPixels * i;
    const std::int64_t row =
        row_offset<I>(p, work, work.m * I::kRowsOfC + static_cast<std::uint32_t>(at), step, is_even);
    if (thread % 8 * kElements >= columns.valid || row < 0) continue;
    move(staged(at, thread % 8), row + columns.offset + thread % 8 * 16);
  }
}

template <class I>
__device__ __forceinline__ void load_addend(const Params& p, const Work& work, unsigned char* staging,
                                            const ColumnChunk& columns) {
  for_each_vector<I>(p, work, columns, p.addend_step, p.addend_is_even, [&](int to, std::int64_t from) {
    *reinterpret_cast<uint4*>(staging + to) =
        *reinterpret_cast<const uint4*>(static_cast<const char*>(p.addend) + from);
  });
}

template <class I>
__device__ __forceinline__ void store_rows(const Params& p, const Work& work, const unsigned char* staging,
                                           const ColumnChunk& columns) {
  for_each_vector<I>(p, work, columns, p.c_step, p.c_is_even, [&](int from, std::int64_t to) {
    const uint4 bits = *reinterpret_cast<const uint4*>(staging + from);
    ptx::st_global(reinterpret_cast<uint4*>(static_cast<char*>(p.c) + to), bits);
  });
}

// --- the staging area, by fragments: 16 bits -------------------------------------------------------------------------

// Of four 8 x 8 matrices, two groups of 8 pixels by two groups of 8 columns: the place in the staging area of the row
// that this lane names. `group` is the first group of pixels.
__device__ __forceinline__ std::uint32_t staged_transposed(unsigned char* staging, int group) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x % 128 / 32);
  return ptx::shared_address(staging) +
         static_cast<std::uint32_t>(staged(8 * (group + lane / 16) + lane % 8, 2 * warp + lane / 8 % 2));
}

template <class I>
__device__ __forceinline__ void stage_transposed(unsigned char* staging, const float (&v)[I::kBN / 2]) {
  using T = typename I::T;
  static_assert(I::kBN % 16 == 0, "groups of 8 pixels go in pairs");
#pragma unroll
  for (int j = 0; j < I::kBN / 8; j += 2) {
    ptx::stmatrix_x4_trans(staged_transposed(staging, j), pack_pair<T>(v[4 * j], v[4 * j + 1]),
                           pack_pair<T>(v[4 * j + 2], v[4 * j + 3]), pack_pair<T>(v[4 * j + 4], v[4 * j + 5]),
                           pack_pair<T>(v[4 * j + 6], v[4 * j + 7]));
  }
}

template <class I>
__device__ __forceinline__ void add_transposed(float scale, unsigned char* staging, float (&v)[I::kBN / 2]) {
#pragma unroll
  for (int j = 0; j < I::kBN / 8; j += 2) {
    std::uint32_t words[4];
    ptx::ldmatrix_x4_trans(staged_transposed(staging, j), words);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      add_pair<typename I::T>(scale, words[i], &v[4 * j + 2 * i], &v[4 * j + 2 * i + 1]);
    }
  }
}

// --- the staging area, by fragments: TF32 ----------------------------------------------------------------------------
// 64 columns are two boxes of 32, each of two warps, which need no other.

// Where column 16 * (warp % 2) + lane / 4 + 8 * half of a box lies, at pixel 2 * (lane % 4) + odd of the first 8. Each
// pixel's row of 128 bytes has another swizzle, so a warp's 8 columns of 4 pixels meet each bank once.
__device__ __forceinline__ float* staged_column(unsigned char* staging, int half, int odd) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int pixel = lane % 4 * 2 + odd;
  const int column = static_cast<int>(threadIdx.x % 64 / 32) * 16 + lane / 4 + 8 * half;
  return reinterpret_cast<float*>(staging + staged(pixel, column / 4)) + column % 4;
}
constexpr int kFloatsOf8Pixels = 8 * kRowBytes / static_cast<int>(sizeof(float));

// Calls use(fragment's element, its place in the staging area) for each.
template <class I, class Use>
__device__ __forceinline__ void for_each_staged(unsigned char* staging, float (&v)[I::kBN / 2], Use use) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float* const column = staged_column(staging, i / 2, i % 2);
#pragma unroll
    for (int j = 0; j < I::kBN / 8; ++j) use(&v[4 * j + i], column + j * kFloatsOf8Pixels);
  }
}

// --- the epilogue
// -----------------------------------------------------------------------------------------------------

// v[i] = op(v[i], the value of its column): columns `column` and `column` + 8 of a chunk are a thread's.
template <class I, class Op>
__device__ __forceinline__ void with_column_values(const Params& p, const Work& work, const ColumnChunk& columns,
                                                   const void* vector, std::int64_t step, float (&v)[I::kBN / 2],
                                                   Op op) {
  using T = typename I::T;
  const int column = static_cast<int>(threadIdx.x % I::kThreadsOfBox / 32 * 16 + threadIdx.x % 32 / 4);
  const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.group_columns + columns.first + column;
  float value[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (column + 8 * i < columns.valid) {
      value[i] = gemm::channel_value<T>(vector, (channel + 8 * i) * step, p.float_vectors);
    }
  }
#pragma unroll
  for (int i = 0; i < I::kBN / 2; ++i) v[i] = op(v[i], value[i % 4 / 2]);
}

// f(alpha * scale * sum + addend_scale * addend + bias).
template <class I>
__device__ __forceinline__ void combine_columns(const Params& p, const Work& work, unsigned char* staging, int barrier,
                                                const ColumnChunk& columns, float (&v)[I::kBN / 2]) {
  using T = typename I::T;
#pragma unroll
  for (int i = 0; i < I::kBN / 2; ++i) v[i] *= p.alpha;
  if constexpr (kHasActivation<I>) {
    if (p.has_scale) {
      with_column_values<I>(p, work, columns, p.scale, p.scale_step, v, [](float x, float scale) { return x * scale; });
    }
  }
  if (p.addend_scale != 0.0f) {
    load_addend<I>(p, work, staging, columns);
    ptx::barrier_sync(barrier, I::kThreadsOfBox);
    if constexpr (sizeof(T) == 4) {
      for_each_staged<I>(staging, v, [&](float* sum, const float* addend) { *sum += p.addend_scale * *addend; });
    } else {
      add_transposed<I>(p.addend_scale, staging, v);
    }
    ptx::barrier_sync(barrier, I::kThreadsOfBox);
  }
  if constexpr (kHasActivation<I>) {
    if (p.has_bias) {
      with_column_values<I>(p, work, columns, p.bias, p.bias_step, v, [](float x, float bias) { return x + bias; });
    }
    gemm::activate(p.activation, sizeof(T) == 2, v);
  }
}

// 64 columns, chunk number `chunk` of the tile.
template <class I>
__device__ __forceinline__ void store_transposed(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                                 int chunk, float (&sum)[I::kBN / 2], int* area) {
  const int barrier = kStagingBarrier + consumer;
  const ColumnChunk columns = column_chunk<I>(p, work, chunk);
  if (columns.valid <= 0) return;
  // Two areas in turn: whoever writes to one has passed a barrier that its last readers reached before.
  unsigned char* const staging = shared.staging[consumer][*area];
  if constexpr (!kIsPlain<I>) {
    if (!p.is_plain) combine_columns<I>(p, work, staging, barrier, columns, sum);
  }
  stage_transposed<I>(staging, sum);
  if (kIsPlain<I> || p.stores_boxes) {
    store_box(p, staging, barrier, columns, work.m * I::kRowsOfC);
  } else {
    ptx::barrier_sync(barrier, 128);
    store_rows<I>(p, work, staging, columns);
  }
  *area ^= 1;
}

// Of block number `row_block` of 64 columns of the tile the 32 that two warps hold.
template <class I>
__device__ __forceinline__ void store_columns(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                              int row_block, float (&sum)[I::kBN / 2]) {
  const int side = static_cast<int>(threadIdx.x % 128 / I::kThreadsOfBox);
  const int barrier = kStagingBarrier + 2 * consumer + side;
  const ColumnChunk columns = column_chunk<I>(p, work, 2 * row_block + side);
  if (columns.valid <= 0) return;
  unsigned char* const staging = shared.staging[consumer][side];
  const bool leads = threadIdx.x % I::kThreadsOfBox == 0;
  if (leads) ptx::bulk_wait_group_read<0>();
  ptx::barrier_sync(barrier, I::kThreadsOfBox);
  if (!p.is_plain) combine_columns<I>(p, work, staging, barrier, columns, sum);
  for_each_staged<I>(staging, sum, [](const float* value, float* to) { *to = *value; });
  if (p.stores_boxes) ptx::fence_proxy_async();
  ptx::barrier_sync(barrier, I::kThreadsOfBox);
  if (!p.stores_boxes) {
    store_rows<I>(p, work, staging, columns);
  } else if (leads) {
    ptx::tma_store_tile_3d(&p.c_map, staging, columns.x, columns.y, static_cast<std::int32_t>(work.m * I::kRowsOfC));
    ptx::bulk_commit_group();
  }
}

template <class I>
__device__ __forceinline__ void store_swap_ab(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                              float (&sum)[I::kRowBlocks][I::kBN / 2], int* area) {
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
    if constexpr (sizeof(typename I::T) == 4) {
      store_columns<I>(p, shared, work, consumer, consumer * I::kRowBlocks + block, sum[block]);
    } else {
      store_transposed<I>(p, shared, work, consumer, consumer * I::kRowBlocks + block, sum[block], area);
    }
  }
}

}  // namespace gpudnn::kernels::sm90
