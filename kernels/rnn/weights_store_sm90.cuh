// From the accumulators of the gradients of weights to their matrices, whose rows may begin anywhere: by warps, 16 rows
// x 64 columns at a time, as floats in shared memory. Of a tile whose rows are divided over a cluster, such pieces are
// copied in bulk to the block that finishes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/store_rows.cuh"
#include "kernels/ptx/bulk_copy_cluster.cuh"
#include "kernels/ptx/ld_shared_cluster.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/rnn/weights_tile_sm90.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {
namespace rnn_weights {

template <class T>
__device__ __forceinline__ void put_bias(const RnnWeights& w, const RnnWeightsGroup& group, std::int32_t m, float sum) {
  const auto put = [&](void* bias, std::int32_t end) {
    if (bias == nullptr || m < group.skipped || m >= end) return;
    T* const to = static_cast<T*>(bias) + m;
    *to = tile::narrow<T>(w.adds ? tile::widen<float>(*to) + sum : sum);
  };
  put(group.bias, group.m);
  put(group.bias2, group.bias2_m);
}

// Where a piece of 16 rows x 64 columns goes.
template <class T>
struct Target {
  T* to;  // of its first element
  std::int64_t stride;
  int first;  // rows before this one do not exist
  int rows, columns;
  bool adds;
};

// `kWidth` neighbours a lane: a warp has a row, or half of one. As many as registers hold are on their way at once.
template <class T, int kWidth>
__device__ __forceinline__ void finish_lines(const unsigned char* piece, const Target<T>& target, int lane) {
#pragma unroll 1
  for (int first = 0; first < kBox; first += 32 * kWidth) {
    const int column = first + lane * kWidth;
    const int end = column < target.columns ? target.rows : 0;
    const auto has = [&](int row) { return row >= target.first && row < end; };
    T* const to = target.to + column;
    tile::Pack<T, kWidth> addend[kPieceRows];
#pragma unroll
    for (int row = 0; row < kPieceRows; ++row) {
      addend[row] = {};
      if (target.adds && has(row)) addend[row] = tile::load_pack<T, kWidth>(to + row * target.stride);
    }
#pragma unroll
    for (int row = 0; row < kPieceRows; ++row) {
      if (!has(row)) continue;
      const auto* const from = reinterpret_cast<const float*>(
          piece + gemm::sm90::chunk_place(row, column / 8, column % 8 / 4) + column % 4 * 4);
      float v[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        v[j] = from[j];
        if (target.adds) v[j] += tile::widen<float>(addend[row].get(j));
      }
      tile::store_pack(to + row * target.stride, tile::narrow_pack<T>(v));
    }
  }
}

// Vectors of 16 bytes: a warp has four rows.
constexpr int kVectorsOfLane = kPieceRows / 4;
template <class T>
__device__ __forceinline__ bool has_vector(const Target<T>& target, int i, int lane) {
  const int row = lane / 8 + 4 * i;
  return row >= target.first && row < target.rows && lane % 8 * kVector < target.columns;
}
template <class T>
__device__ __forceinline__ T* vector_at(const Target<T>& target, int i, int lane) {
  return target.to + (lane / 8 + 4 * i) * target.stride + lane % 8 * kVector;
}
template <class T>
__device__ __forceinline__ void load_addends(const Target<T>& target, int lane,
                                             tile::Pack<T, kVector> (&addend)[kVectorsOfLane]) {
#pragma unroll
  for (int i = 0; i < kVectorsOfLane; ++i) {
    addend[i] = {};
    if (target.adds && has_vector(target, i, lane)) {
      addend[i] = tile::load_pack<T, kVector>(vector_at(target, i, lane));
    }
  }
}
template <class T>
__device__ __forceinline__ void finish_vectors(const unsigned char* piece, const Target<T>& target, int lane,
                                               const tile::Pack<T, kVector> (&addend)[kVectorsOfLane]) {
#pragma unroll
  for (int i = 0; i < kVectorsOfLane; ++i) {
    const int row = lane / 8 + 4 * i;
    const float4 low = *reinterpret_cast<const float4*>(piece + gemm::sm90::chunk_place(row, lane % 8, 0));
    const float4 high = *reinterpret_cast<const float4*>(piece + gemm::sm90::chunk_place(row, lane % 8, 1));
    float v[kVector] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (target.adds) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) v[j] += tile::widen<float>(addend[i].get(j));
    }
    if (has_vector(target, i, lane)) tile::store_pack(vector_at(target, i, lane), tile::narrow_pack<T>(v));
  }
}

// Of the warp's fragments those of kColumns columns.
template <int kColumns>
__device__ __forceinline__ void stage_piece(unsigned char* piece, const float* sum, int lane) {
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<float2*>(piece + gemm::sm90::chunk_place(lane / 4 + 8 * half, j, lane % 4 / 2) + lane % 2 * 8) =
          make_float2(sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]);
    }
  }
}

enum class Alignment { vectors, pairs, none };
template <class T>
__device__ __forceinline__ Alignment alignment_of(const RnnWeightsMatrix& matrix) {
  const auto at = reinterpret_cast<std::uintptr_t>(matrix.d);
  if (at % 16 == 0 && matrix.n % kVector == 0) return Alignment::vectors;
  return at % 4 == 0 && matrix.n % 2 == 0 ? Alignment::pairs : Alignment::none;
}

// The piece that begins at row m and column n of the tile, of which `width` columns are the tile's.
template <class T>
__device__ __forceinline__ Target<T> target_of(const RnnWeights& w, const Tile& t, int m, int n, int width) {
  const std::int32_t row = t.m + m;
  const std::int32_t column = t.n + n;
  return {static_cast<T*>(t.matrix->d) + std::int64_t{row} * t.matrix->n + column,
          t.matrix->n,
          t.group->skipped - row,
          t.group->m - row,
          min(t.matrix->n - column, width),
          w.adds};
}

template <class I>
__device__ __forceinline__ void store_tile(const RnnWeights& w, Shared<I>& shared, const Tile& t, int warp,
                                           const float (&sum)[I::kBN / 2]) {
  using T = typename I::T;
  const Alignment alignment = alignment_of<T>(*t.matrix);
  unsigned char* const piece = shared.staging[warp];
  const auto target = [&](int chunk) {
    return target_of<T>(w, t, warp * kPieceRows, chunk * kBox, min(kBox, I::kBN - chunk * kBox));
  };
  // What is added to is on its way a chunk ahead.
  tile::Pack<T, kVector> next[kVectorsOfLane];
  if (alignment == Alignment::vectors) load_addends(target(0), static_cast<int>(threadIdx.x % 32), next);
#pragma unroll 1
  for (int chunk = 0; chunk < I::kChunks; ++chunk) {
    // Addresses are made anew for each chunk: kept, they took more registers than there are.
    std::uint32_t pinned = threadIdx.x % 32;
    ptx::pin(pinned);
    const auto lane = static_cast<int>(pinned);
    const Target<T> here = target(chunk);
    tile::Pack<T, kVector> addend[kVectorsOfLane];
#pragma unroll
    for (int i = 0; i < kVectorsOfLane; ++i) addend[i] = next[i];
#pragma unroll
    for (int i = 0; i < I::kChunks; ++i) {
      constexpr int kLast = I::kBN - (I::kChunks - 1) * kBox;
      if (chunk != i) continue;
      if (i + 1 < I::kChunks) {
        stage_piece<kBox>(piece, sum + i * (kBox / 2), lane);
      } else {
        stage_piece<kLast>(piece, sum + i * (kBox / 2), lane);
      }
    }
    __syncwarp();
    if (alignment == Alignment::vectors) {
      if (chunk + 1 < I::kChunks) load_addends(target(chunk + 1), lane, next);
      finish_vectors(piece, here, lane, addend);
    } else if (alignment == Alignment::pairs) {
      finish_lines<T, 2>(piece, here, lane);
    } else {
      finish_lines<T, 1>(piece, here, lane);
    }
    __syncwarp();
  }
}

// Of a block's pieces, the first one that block `rank` finishes.
template <class I>
__device__ __forceinline__ int first_piece(int rank, int splits) {
  return I::kPieces * rank / splits;
}

template <class I>
__device__ __forceinline__ void store_split_tile(const RnnWeights& w, Shared<I>& shared, const Tile& t, int warp,
                                                 const float (&sum)[I::kBN / 2]) {
  using T = typename I::T;
  const auto rank = static_cast<int>(ptx::cluster_ctarank());
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int most = (I::kPieces + w.splits - 1) / w.splits;
  unsigned char* const own = shared.stage[0];
  unsigned char* const others = own + I::kPieces * kPieceBytes;
  static_assert((I::kPieces + (I::kMaxSplits - 1) * ((I::kPieces + I::kMaxSplits - 1) / I::kMaxSplits)) * kPieceBytes <=
                    I::kStages * I::kStageBytes,
                "the stages hold a block's sums and those of the others");
  meet();  // all blocks have read their stages, and have the sums of their rows of a
  if (t.sums && rank == 0 && warp == 0) {
    float4 total = {};
    for (int i = 0; i < w.splits; ++i) {
      const float4 share = ptx::ld_shared_cluster(
          ptx::mapa(ptx::shared_address(&shared.total[4 * lane]), static_cast<std::uint32_t>(i)));
      total.x += share.x, total.y += share.y, total.z += share.z, total.w += share.w;
    }
    const float of[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) put_bias<T>(w, *t.group, t.m + 4 * lane + i, of[i]);
  }
#pragma unroll
  for (int chunk = 0; chunk < I::kChunks; ++chunk) {
    stage_piece<kBox>(own + (warp * I::kChunks + chunk) * kPieceBytes, sum + chunk * (kBox / 2), lane);
  }
  const int mine = first_piece<I>(rank + 1, w.splits) - first_piece<I>(rank, w.splits);
  ptx::fence_proxy_async();
  ptx::barrier_sync(kConsumersBarrier, 128 * kConsumers);
  if (threadIdx.x == 128) {
    ptx::mbarrier_arrive_expect_tx(&shared.received, static_cast<std::uint32_t>(mine * (w.splits - 1) * kPieceBytes));
    for (int i = 1; i < w.splits; ++i) {
      const int to = (rank + i) % w.splits;
      const int first = first_piece<I>(to, w.splits);
      const int count = first_piece<I>(to + 1, w.splits) - first;
      ptx::bulk_copy_cluster(ptx::mapa(ptx::shared_address(others + (w.splits - 1 - i) * most * kPieceBytes),
                                       static_cast<std::uint32_t>(to)),
                             own + first * kPieceBytes, static_cast<std::uint32_t>(count * kPieceBytes),
                             ptx::mapa(ptx::shared_address(&shared.received), static_cast<std::uint32_t>(to)));
    }
  }
  while (!ptx::mbarrier_try_wait_acquire_cluster(&shared.received, 0)) {
  }
  const Alignment alignment = alignment_of<T>(*t.matrix);
  for (int i = warp; i < mine; i += kConsumerWarps) {
    const int number = first_piece<I>(rank, w.splits) + i;
    unsigned char* const piece = own + number * kPieceBytes;
    const Target<T> target = target_of<T>(w, t, number / I::kChunks * kPieceRows, number % I::kChunks * kBox, kBox);
    tile::Pack<T, kVector> addend[kVectorsOfLane];
    if (alignment == Alignment::vectors) load_addends(target, lane, addend);
    for (int place = lane * 16; place < kPieceBytes; place += 32 * 16) {
      float4 total = {};
      for (int split = 0; split < w.splits; ++split) {
        const int place_of_split = (split - rank - 1 + w.splits) % w.splits;
        const unsigned char* const from = split == rank ? piece : others + (place_of_split * most + i) * kPieceBytes;
        const float4 share = *reinterpret_cast<const float4*>(from + place);
        total.x += share.x, total.y += share.y, total.z += share.z, total.w += share.w;
      }
      *reinterpret_cast<float4*>(piece + place) = total;
    }
    __syncwarp();
    if (alignment == Alignment::vectors) {
      finish_vectors(piece, target, lane, addend);
    } else if (alignment == Alignment::pairs) {
      finish_lines<T, 2>(piece, target, lane);
    } else {
      finish_lines<T, 1>(piece, target, lane);
    }
  }
  meet();  // nobody reads this block's sums any more
}

}  // namespace rnn_weights
}  // namespace gpudnn::kernels
