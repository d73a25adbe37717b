// The batched product by multiply-adds: the kernel. C[b][m][n] = sum over k of A[b][k][m] * B[b][k][n].
//
// Data flow of a block, which computes one bm x bn tile of one batch:
//   k tile t + 1 of A and B: global -> registers (16 bytes a load, lanes along m and n), while tile t is multiplied,
//                            -> shared[k][m], shared[k][n]
//   k tile t:                shared -> registers (16 bytes a load) -> multiply-adds into tm x tn sums
//   sums:                    registers -> global, 16 bytes a store
// Both operands have their reduction outermost, so no element is ever transposed. The m tiles of a column of C are
// neighbouring blocks and share B through the L2.
//
// Limits: rows are multiples of 16 bytes apart. The order of summation is fixed by k_per_split alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/winograd/batched_product_simt.hpp"

namespace gpudnn::kernels::winograd {

template <int kRow>
struct ProductShape {
  static constexpr ProductRow kTile = kProductTiles[kRow];
  static constexpr int kThreads = kTile.threads();
  static constexpr int kGroupsM = kTile.tm / 4;
  static constexpr int kGroupsN = kTile.tn / 4;
  static constexpr int kPartM = kTile.bm / kGroupsM;
  static constexpr int kPartN = kTile.bn / kGroupsN;
  static constexpr int kLanesN = 32 / kTile.lanes_m;
  static constexpr int kWarpsM = kPartM / (kTile.lanes_m * 4);
  static constexpr int kWarpsN = kPartN / (kLanesN * 4);
  static_assert(kWarpsM * kTile.lanes_m * 4 == kPartM && kWarpsN * kLanesN * 4 == kPartN, "whole warps");
  static_assert(kWarpsM * kWarpsN * 32 == kThreads, "the warps cover the tile");
  static constexpr int kVectorsA = kTile.bm * kProductTileK / 4 / kThreads;
  static constexpr int kVectorsB = kTile.bn * kProductTileK / 4 / kThreads;
  static_assert(kVectorsA * kThreads * 4 == kTile.bm * kProductTileK, "each thread loads as many vectors");
  static_assert(kVectorsB * kThreads * 4 == kTile.bn * kProductTileK, "each thread loads as many vectors");
};

// A thread's vectors of an operand's k tile, kWidth floats wide.
template <int kWidth, int kVectors, int kThreads>
struct OperandLoader {
  static constexpr int kPerRow = kWidth / 4;
  float4 held[kVectors];
  const float* from[kVectors];
  int k[kVectors];
  bool inside[kVectors];

  __device__ __forceinline__ OperandLoader(const float* base, int pitch, int first, int extent) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int v = static_cast<int>(threadIdx.x) + i * kThreads;
      k[i] = v / kPerRow;
      const int column = first + v % kPerRow * 4;
      inside[i] = column < extent;
      from[i] = base + static_cast<std::int64_t>(k[i]) * pitch + column;
    }
  }
  // Rows from `rows_left` on count as zero.
  __device__ __forceinline__ void load(int rows_left, std::int64_t advance) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      held[i] = make_float4(0, 0, 0, 0);
      if (inside[i] && k[i] < rows_left) held[i] = __ldg(reinterpret_cast<const float4*>(from[i]));
      from[i] += advance;
    }
  }
  __device__ __forceinline__ void store(float (&tile)[kProductTileK][kWidth]) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int v = static_cast<int>(threadIdx.x) + i * kThreads;
      *reinterpret_cast<float4*>(&tile[v / kPerRow][v % kPerRow * 4]) = held[i];
    }
  }
};

template <int kTm, int kTn, int kBm, int kBn, int kPartM, int kPartN>
__device__ __forceinline__ void multiply(const float (&a)[kProductTileK][kBm], const float (&b)[kProductTileK][kBn],
                                         int m0, int n0, float (&sums)[kTm][kTn]) {
#pragma unroll
  for (int k = 0; k < kProductTileK; ++k) {
    float av[kTm];
    float bv[kTn];
#pragma unroll
    for (int g = 0; g < kTm / 4; ++g) {
      *reinterpret_cast<float4*>(&av[g * 4]) = *reinterpret_cast<const float4*>(&a[k][g * kPartM + m0]);
    }
#pragma unroll
    for (int g = 0; g < kTn / 4; ++g) {
      *reinterpret_cast<float4*>(&bv[g * 4]) = *reinterpret_cast<const float4*>(&b[k][g * kPartN + n0]);
    }
#pragma unroll
    for (int i = 0; i < kTm; ++i) {
#pragma unroll
      for (int j = 0; j < kTn; ++j) sums[i][j] += av[i] * bv[j];
    }
  }
}

template <int kRow>
__global__ void __launch_bounds__(ProductShape<kRow>::kThreads, kProductTiles[kRow].min_blocks)
    batched_product_simt(const BatchedProduct p) {
  using S = ProductShape<kRow>;
  constexpr ProductRow kTile = S::kTile;
  __shared__ alignas(16) float a_tiles[2][kProductTileK][kTile.bm];
  __shared__ alignas(16) float b_tiles[2][kProductTileK][kTile.bn];
  std::uint32_t tile_m = 0;
  std::uint32_t tile_n = 0;
  std::uint32_t batch = 0;
  const std::uint32_t split =
      p.batch_count.divmod(p.tiles_n.divmod(p.tiles_m.divmod(blockIdx.x, &tile_m), &tile_n), &batch);
  const int first_m = static_cast<int>(tile_m) * kTile.bm;
  const int first_n = static_cast<int>(tile_n) * kTile.bn;
  const int first_k = static_cast<int>(split) * p.k_per_split;
  int rows = min(p.k_per_split, p.k - first_k);

  OperandLoader<kTile.bm, S::kVectorsA, S::kThreads> load_a(
      p.a + batch * p.a_batch + static_cast<std::int64_t>(first_k) * p.a_pitch, p.a_pitch, first_m, p.a_pitch);
  OperandLoader<kTile.bn, S::kVectorsB, S::kThreads> load_b(
      p.b + batch * p.b_batch + static_cast<std::int64_t>(first_k) * p.b_pitch, p.b_pitch, first_n, p.b_pitch);
  const std::int64_t advance_a = static_cast<std::int64_t>(p.a_pitch) * kProductTileK;
  const std::int64_t advance_b = static_cast<std::int64_t>(p.b_pitch) * kProductTileK;

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int m0 = (warp % S::kWarpsM * kTile.lanes_m + lane % kTile.lanes_m) * 4;
  const int n0 = (warp / S::kWarpsM * S::kLanesN + lane / kTile.lanes_m) * 4;
  float sums[kTile.tm][kTile.tn] = {};

  load_a.load(rows, advance_a);
  load_b.load(rows, advance_b);
  load_a.store(a_tiles[0]);
  load_b.store(b_tiles[0]);
  __syncthreads();
  int current = 0;
  while (true) {
    rows -= kProductTileK;
    const bool more = rows > 0;
    if (more) {
      load_a.load(rows, advance_a);
      load_b.load(rows, advance_b);
    }
    multiply<kTile.tm, kTile.tn, kTile.bm, kTile.bn, S::kPartM, S::kPartN>(a_tiles[current], b_tiles[current], m0, n0,
                                                                           sums);
    if (!more) break;
    current ^= 1;
    load_a.store(a_tiles[current]);
    load_b.store(b_tiles[current]);
    __syncthreads();
  }

  float* const c = p.c + split * p.c_split + batch * p.c_batch;
#pragma unroll
  for (int i = 0; i < kTile.tm; ++i) {
    const int m = first_m + i / 4 * S::kPartM + m0 + i % 4;
    if (m >= p.m) continue;
#pragma unroll
    for (int g = 0; g < S::kGroupsN; ++g) {
      const int n = first_n + g * S::kPartN + n0;
      if (n >= p.c_pitch) continue;
      *reinterpret_cast<float4*>(c + static_cast<std::int64_t>(m) * p.c_pitch + n) =
          make_float4(sums[i][g * 4], sums[i][g * 4 + 1], sums[i][g * 4 + 2], sums[i][g * 4 + 3]);
    }
  }
}

}  // namespace gpudnn::kernels::winograd
