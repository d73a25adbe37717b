// The epilogue of the Hopper pointwise convolution on planes: fragments are combined, rounded and stored; those of the
// filter gradient are kept as partial sums, which a second kernel joins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "kernels/conv/conv1x1/conv1x1_nchw_sm90_work.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_epilogue.cuh"

namespace gpudnn::kernels::sm90 {

template <class Element, Direction kDir, int kShape>
struct alignas(1024) Shared<planes::Instance<Element, kDir, kShape>> {
  using I = planes::Instance<Element, kDir, kShape>;
  // Sums over planes of 16-bit elements alone go out through shared memory.
  static constexpr int kAreaBytes = I::kKind == planes::Kind::across ? 64 * kRowBytes : 16;
  unsigned char a[I::kStages][I::kABytes];
  unsigned char b[I::kStages][I::kBBytes];
  unsigned char staging[I::kConsumers][2][kAreaBytes];
  std::uint64_t full[I::kStages];
  std::uint64_t empty[I::kStages];
  std::uint64_t fetched[I::kConsumers];  // ping-pong: the consumer has seen all of its tile's stages filled
};

namespace planes {

template <class T>
__device__ __forceinline__ float bias_of(const Params& p, std::uint32_t plane) {
  return tile::widen<float>(*reinterpret_cast<const T*>(static_cast<const char*>(p.bias) + plane * p.bias_step));
}

// --- across, 16 bits -------------------------------------------------------------------------------------------------

// v[4 j ...] += scale * addend, for the fragments of 64 planes x a chunk of pixels: straight from memory, half a sector
// at a time; the other half comes from the L1.
template <class T>
__device__ __forceinline__ void combine(const Params& p, std::uint32_t first_plane, const Chunk& chunk, int column,
                                        float* v) {
  constexpr int kGroups = kRowBytes / static_cast<int>(sizeof(T)) / 8;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t plane = first_plane + static_cast<std::uint32_t>(8 * half);
    if (plane >= p.out_planes) continue;
    const auto* const from = reinterpret_cast<const T*>(static_cast<const char*>(p.addend) +
                                                        chunk.image * p.addend_step[1] + plane * p.addend_step[0]) +
                             chunk.pixel + column;
    const int left = static_cast<int>(p.pixels) - chunk.pixel - column;
    PairBits<T> pairs[kGroups] = {};
    if (p.addend_vectors) {
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        if (8 * j < left) pairs[j] = *reinterpret_cast<const PairBits<T>*>(from + 8 * j);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        if (8 * j < left) pairs[j] = tile::word_of<T>(from[8 * j], from[8 * j + 1]);
      }
    }
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      add_pair<T>(p.addend_scale, pairs[j], &v[4 * j + 2 * half], &v[4 * j + 2 * half + 1]);
    }
  }
}

// From the staging area to C, where TMA cannot take it.
template <class T>
__device__ __forceinline__ void store_pieces(const Params& p, const unsigned char* staging, std::uint32_t first_plane,
                                             const Chunk& chunk) {
  using Piece = uint2;
  constexpr int kPieces = kRowBytes / static_cast<int>(sizeof(Piece));
  constexpr int kAtOnce = 128 / kPieces;
  const int byte = static_cast<int>(threadIdx.x % kPieces * sizeof(Piece));
  const int first_row = static_cast<int>(threadIdx.x % 128) / kPieces;
  const int left = (static_cast<int>(p.pixels) - chunk.pixel) * static_cast<int>(sizeof(T));
  if (byte >= left) return;
  char* const to =
      static_cast<char*>(p.c) + chunk.image * p.c_step[1] + chunk.pixel * static_cast<int>(sizeof(T)) + byte;
#pragma unroll
  for (int i = 0; i < 64 / kAtOnce; ++i) {
    const int row = first_row + i * kAtOnce;
    const std::uint32_t plane = first_plane + static_cast<std::uint32_t>(row);
    if (plane >= p.out_planes) break;
    const auto bits = *reinterpret_cast<const Piece*>(staging + staged(row, byte / 16) + byte % 16);
    ptx::st_global(reinterpret_cast<Piece*>(to + plane * p.c_step[0]), bits);
  }
}

// 64 planes x a chunk of pixels, from the fragments of a warpgroup through the staging area to C.
template <class I>
__device__ __forceinline__ void store_chunk(const Params& p, std::uint32_t first_plane, const Chunk& chunk,
                                            unsigned char* staging, int barrier, const float* sum) {
  using T = typename I::T;
  constexpr int kSums = I::kRowElements / 2;
  const int thread = static_cast<int>(threadIdx.x % 128);
  if (p.is_plain) {
    stage_fragments<T>(staging, thread, sum);
  } else {
    const int lane = thread % 32;
    const std::uint32_t my_plane = first_plane + static_cast<std::uint32_t>(thread / 32 * 16 + lane / 4);
    float v[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) v[i] = p.alpha * sum[i];
    if (p.addend_scale != 0.0f) combine<T>(p, my_plane, chunk, lane % 4 * 2, v);
    if (p.has_bias) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t plane = my_plane + static_cast<std::uint32_t>(8 * half);
        if (plane >= p.out_planes) continue;
        const float bias = bias_of<T>(p, plane);
#pragma unroll
        for (int i = 0; i < kSums; i += 4) {
          v[i + 2 * half] += bias;
          v[i + 2 * half + 1] += bias;
        }
      }
    }
    if (p.activation.mode == gemm::Activation::relu) gemm::activate_relu(p.activation, v);
    stage_fragments<T>(staging, thread, v);
  }
  if constexpr (I::kByThreads) {
    ptx::barrier_sync(barrier, 128);
    return store_pieces<T>(p, staging, first_plane, chunk);
  }
  ptx::fence_proxy_async();
  // The chunk before lies in the other area: whoever passes the barrier may write there.
  if (thread == 0) ptx::bulk_wait_group_read<0>();
  ptx::barrier_sync(barrier, 128);
  if (thread == 0) {
    ptx::tma_store_tile_3d(&p.out, staging, chunk.pixel, static_cast<std::int32_t>(first_plane), chunk.image);
    ptx::bulk_commit_group();
  }
}

template <class I>
__device__ __forceinline__ void store_across(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                             const float (&sum)[I::kRowBlocks][I::kBN / 2], int* area) {
#pragma unroll
  for (int rows = 0; rows < I::kRowBlocks; ++rows) {
    const int row_block = I::kPingPong ? rows : consumer;
    const std::uint32_t plane = work.m * I::kBM + static_cast<std::uint32_t>(row_block * kBlock);
    if (plane >= p.out_planes) break;
#pragma unroll
    for (int i = 0; i < I::kChunks; ++i) {
      const std::uint32_t index = work.n * I::kChunks + static_cast<std::uint32_t>(i);
      if (index >= p.chunks) break;
      // Two areas in turn: whoever writes to one has passed a barrier that its last readers reached before.
      store_chunk<I>(p, plane, chunk_at<I>(p, index), shared.staging[consumer][*area], kStagingBarrier + consumer,
                     &sum[rows][i * I::kRowElements / 2]);
      *area ^= 1;
    }
  }
}

// --- across, TF32 ----------------------------------------------------------------------------------------------------

// Four pixels of a plane.
__device__ __forceinline__ void store_pixels(const Params& p, std::uint32_t plane, const Chunk& chunk, float4 v) {
  const std::int64_t pixel = chunk.pixel * static_cast<std::int64_t>(sizeof(float));
  if (!p.is_plain) {
    float* const values[] = {&v.x, &v.y, &v.z, &v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) *values[i] *= p.alpha;
    if (p.addend_scale != 0.0f) {
      const auto* const from = reinterpret_cast<const float*>(
          static_cast<const char*>(p.addend) + chunk.image * p.addend_step[1] + plane * p.addend_step[0] + pixel);
      float4 addend;
      if (p.addend_vectors) {
        addend = *reinterpret_cast<const float4*>(from);
      } else {
        addend = make_float4(from[0], from[1], from[2], from[3]);
      }
      v.x += p.addend_scale * addend.x;
      v.y += p.addend_scale * addend.y;
      v.z += p.addend_scale * addend.z;
      v.w += p.addend_scale * addend.w;
    }
    const float bias = p.has_bias ? bias_of<float>(p, plane) : 0.0f;
    float each[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) each[i] = p.has_bias ? *values[i] + bias : *values[i];
    if (p.activation.mode == gemm::Activation::relu) gemm::activate_relu(p.activation, each);
#pragma unroll
    for (int i = 0; i < 4; ++i) *values[i] = each[i];
  }
  auto* const to =
      reinterpret_cast<float*>(static_cast<char*>(p.c) + chunk.image * p.c_step[1] + plane * p.c_step[0] + pixel);
  uint4 bits;
  memcpy(&bits, &v, sizeof bits);
  ptx::st_global(reinterpret_cast<uint4*>(to), bits);
}

// A warp has a chunk of pixels: 128 bytes of 4 planes go out together.
template <class I>
__device__ __forceinline__ void store_across_tf32(const Params& p, const Work& work, int consumer,
                                                  const float (&sum)[2][I::kBN / 2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x % 128) / 32 + (I::kPingPong ? 0 : 4 * consumer);
  const std::uint32_t index = work.m * I::kChunks + static_cast<std::uint32_t>(warp);
  if (index >= p.chunks) return;
  Chunk chunk = chunk_at<I>(p, index);
  chunk.pixel += 4 * vector_of_group(lane / 4);
  if (chunk.pixel >= static_cast<int>(p.pixels)) return;
  const std::uint32_t first = work.n * I::kBN + static_cast<std::uint32_t>(lane % 4 * 2);
#pragma unroll
  for (int i = 0; i < I::kBN / 4; ++i) {
    const std::uint32_t plane = first + static_cast<std::uint32_t>(i / 2 * 8 + i % 2);
    if (plane >= p.out_planes) continue;
    const int at = i / 2 * 4 + i % 2;
    store_pixels(p, plane, chunk, make_float4(sum[0][at], sum[0][at + 2], sum[1][at], sum[1][at + 2]));
  }
}

// --- along -----------------------------------------------------------------------------------------------------------

// Sums always go by way of the workspace, also where they are not split: the filter is small, and one by one in its
// order they are half of a kernel's code.

// Where a thread's sums lie in the tile: rows of 8 columns, two halves 8 rows apart, as wgmma leaves them.
struct FragmentPlace {
  std::uint32_t row, column;
};
__device__ __forceinline__ FragmentPlace place_of_fragment(std::uint32_t row_block, std::uint32_t group_of_8,
                                                           std::uint32_t thread) {
  return {row_block * 64 + thread / 32 * 16 + thread % 32 / 4, group_of_8 * 8 + thread % 4 * 2};
}

// Four sums of a fragment: two columns of a row, and of the row 8 below.
template <class T>
__device__ __forceinline__ void store_fragment(const Params& p, std::uint32_t row, std::uint32_t column,
                                               const float4& sums) {
  const float values[] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t filter = row + static_cast<std::uint32_t>(i / 2 * 8);
    const std::uint32_t channel = column + static_cast<std::uint32_t>(i % 2);
    if (filter >= p.out_planes || channel >= p.in_planes) continue;
    auto* const to = reinterpret_cast<T*>(static_cast<char*>(p.c) + filter * p.c_step[0] + channel * p.c_step[1]);
    float value = p.alpha * values[i];
    if (p.addend_scale != 0.0f) value += p.addend_scale * tile::widen<float>(*to);
    *to = tile::narrow<T>(value);
  }
}

template <class T>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_splits(const __grid_constant__ Params p, std::uint32_t bm, std::uint32_t bn, int lanes) {
  const std::uint32_t tile_quads = bm * bn / 4;
  const std::size_t count = static_cast<std::size_t>(p.works.divisor) * tile_quads;
  const QuadOfTiles mine = sum_quad(p.partials, count, p.splits, lanes);
  if (!mine.stores) return;
  const auto tile = static_cast<std::uint32_t>(mine.quad / tile_quads);
  const auto inside = static_cast<std::uint32_t>(mine.quad % tile_quads);
  std::uint32_t n = 0;
  const std::uint32_t m = p.inner_tiles.divmod(tile, &n);
  const FragmentPlace place = place_of_fragment(inside / 128 / (bn / 8), inside / 128 % (bn / 8), inside % 128);
  store_fragment<T>(p, m * bm + place.row, n * bn + place.column, mine.sum);
}

template <class T>
void launch_reduction(const TileShape& shape, const Params& params, CUstream_st* stream) {
  const auto [lanes, config] = reduction_launch(params.works.divisor, shape.bm * shape.bn, params.splits);
  cuda::launch_kernel(&reduce_splits<T>, config, stream, params, static_cast<std::uint32_t>(shape.bm),
                      static_cast<std::uint32_t>(shape.bn), lanes);
}

}  // namespace planes
}  // namespace gpudnn::kernels::sm90
