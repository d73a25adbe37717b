// From the accumulators of a consumer warpgroup to D along its rows, for any epilogue, strides and types: 64 x 64 sums
// at a time are staged as floats, and each thread takes 8 neighbours of a row through the chain (epilogue/chain.cuh),
// with vector loads and stores. Where the blocks of a cluster have a share of k each, they share the tile's pieces:
// each sends its sums of a piece to the shared memory of the one that finishes it, whose barrier counts the bytes.
// Nothing is fetched, and no fence waits for memory; sums are added in the order of the splits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/chain.cuh"
#include "kernels/gemm/sm90/mainloop.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/st_async_narrow.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// 64 x 64 floats: byte of the first (0) or second (1) four of the 8 columns number `group` of a row. Fragments are
// written and groups read without bank conflicts.
__device__ __forceinline__ int chunk_place(int row, int group, int half) {
  return row * 256 + half * 128 + ((group ^ (half << 2) ^ (row & 7)) << 4);
}

__device__ __forceinline__ void stage_sums(unsigned char* chunk, const float* sum) {
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int lane = thread % 32;
  const int row = thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<float2*>(chunk + chunk_place(row + 8 * half, j, lane % 4 / 2) + lane % 2 * 8) =
          make_float2(sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]);
    }
  }
}

__device__ __forceinline__ void add8(const float4& low, const float4& high, float (&v)[8]) {
  v[0] += low.x;
  v[1] += low.y;
  v[2] += low.z;
  v[3] += low.w;
  v[4] += high.x;
  v[5] += high.y;
  v[6] += high.z;
  v[7] += high.w;
}

// From `count` of 8 sums of row m, from column n on, to what D gets.
template <class I>
__device__ __forceinline__ void finish_sums(const Params& p, EpilogueState* state, const WorkTile& work,
                                            std::uint32_t m, std::uint32_t n, int count, float (&v)[8]) {
  if constexpr (I::kPlain) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= state->alpha;
  } else {
    chain8(p.epilogue, state, work.batch, m, n, count, v);
  }
}
template <class I>
__device__ __forceinline__ void finish_row(const Params& p, EpilogueState* state, const WorkTile& work, std::uint32_t m,
                                           std::uint32_t n, int count, float (&v)[8]) {
  finish_sums<I>(p, state, work, m, n, count, v);
  store8(p.epilogue.d, element_at(p.epilogue.d, work.batch, m, n), count, v);
}

// Whether rows of D are contiguous but do not lie in vectors: then a warp stores neighbours side by side, where the 8
// of a thread would be stores of 8 instructions that meet a sector each.
template <class I>
__device__ __forceinline__ bool stores_side_by_side(const Matrix& d) {
  if constexpr (sizeof(typename I::T) != 2) return false;
  return !d.vectors && d.n_stride == 1 && (d.type == Element::f16 || d.type == Element::bf16);
}

// 4 rows of 64 columns, whose values stand in `chunk` from row `first` on, by a warp; rows and columns from `rows` and
// `columns` on do not exist. `at`: the element of the first one.
__device__ __forceinline__ void store_side_by_side(const Matrix& d, std::int64_t at, const unsigned char* chunk,
                                                   int first, int rows, int columns) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const bool is_f16 = d.type == Element::f16;
  auto* to = static_cast<std::uint16_t*>(d.data) + at + lane;
#pragma unroll 1
  for (int row = 0; row < min(rows, 4); ++row, to += d.m_stride) {
#pragma unroll
    for (int column = 0; column < 64; column += 32) {
      const int here = column + lane;
      const float v =
          *reinterpret_cast<const float*>(chunk + chunk_place(first + row, here / 8, here % 8 / 4) + here % 4 * 4);
      if (here < columns) to[column] = is_f16 ? tile::narrow<tile::Half>(v).bits : tile::narrow<tile::BFloat16>(v).bits;
    }
  }
}

// How the blocks of a cluster that have a share of k each divide a tile: pieces of 16 rows x 64 columns, dealt to the
// consumer warpgroups of all blocks in turn.
struct Pieces {
  std::uint32_t along_m;
  std::uint32_t count;
  std::uint32_t owners;    // warpgroups
  std::uint32_t of_block;  // that a block has room for
};
constexpr int kPieceBytes = 16 * 256;

template <class I>
__device__ __forceinline__ Pieces pieces_of(const Params& p, std::uint32_t rows) {
  const std::uint32_t along_m = (rows + 15) / 16;
  const std::uint32_t count = along_m * I::kChunks;
  const std::uint32_t owners = p.splits * I::kConsumers;
  return {along_m, count, owners, (count + owners - 1) / owners * I::kConsumers};
}

// A warp's fragments of 16 rows x 64 columns, to a piece in shared memory of any block of the cluster.
__device__ __forceinline__ void send_sums(std::uint32_t piece, const float* sum, std::uint32_t barrier) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = chunk_place(lane / 4 + 8 * half, j, lane % 4 / 2) + lane % 2 * 8;
      ptx::st_async(piece + static_cast<std::uint32_t>(place),
                    make_float2(sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]), barrier);
    }
  }
}

// Every block's sums to the owners of the pieces: [split][piece of the block], where the stages were.
template <class I>
__device__ __forceinline__ void send_splits(const Params& p, Shared<I>& shared, const Pieces& pieces,
                                            std::uint32_t rank, int consumer, const Sums<I>& sum) {
  static_assert(
      I::kBM * I::kBN * 4 + kMaxSplits * I::kConsumers * kPieceBytes <= I::kStages * (I::kABytes + I::kBBytes),
      "the stages hold a tile's sums");
  __syncwarp();
  ptx::cluster_arrive_relaxed();  // all blocks have read their stages
  ptx::cluster_wait();
  if (threadIdx.x == 128) {
    const std::uint32_t rest = pieces.count % pieces.owners;
    const std::uint32_t first = rank * I::kConsumers;
    const std::uint32_t more = rest > first ? min(rest - first, static_cast<std::uint32_t>(I::kConsumers)) : 0;
    const std::uint32_t mine = pieces.count / pieces.owners * I::kConsumers + more;
    ptx::mbarrier_arrive_expect_tx(&shared.sums, mine * p.splits * kPieceBytes);
  }
  const std::uint32_t area = ptx::shared_address(&shared.a[0][0]) + rank * pieces.of_block * kPieceBytes;
  const std::uint32_t barrier = ptx::shared_address(&shared.sums);
  if (I::kPingPong && consumer != 0) return;
#pragma unroll
  for (int i = 0; i < I::kRowBlocks * I::kChunks; ++i) {
    const std::uint32_t row_block = i / I::kChunks + (I::kPingPong ? 0 : consumer * I::kRowBlocks);
    const std::uint32_t along_m = row_block * 4 + threadIdx.x % 128 / 32;
    if (along_m >= pieces.along_m) continue;
    const std::uint32_t piece = i % I::kChunks * pieces.along_m + along_m;
    const std::uint32_t owner = piece % pieces.owners;
    const std::uint32_t place = piece / pieces.owners * I::kConsumers + owner % I::kConsumers;
    const std::uint32_t to = owner / I::kConsumers;
    send_sums(ptx::mapa(area + place * kPieceBytes, to), sum[i / I::kChunks] + i % I::kChunks * 32,
              ptx::mapa(barrier, to));
  }
}

// Works through pieces of 16 rows x 64 columns: without splits those of this warpgroup, 64 x 64 at a time; with splits
// those that it has of the tile. One copy of the chain's code serves both.
template <class I>
__device__ __forceinline__ void store_rows(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                           const Sums<I>& sum, EpilogueState* state) {
  const std::uint32_t thread = threadIdx.x % 128;
  const bool splits = p.splits > 1;
  const std::uint32_t rank = ptx::cluster_ctarank();
  const std::uint32_t first_row = splits || I::kPingPong ? 0 : consumer * I::kRowBlocks * 64;
  // None in the second tile of a pair that has but one.
  const std::uint32_t rows = work.m < p.m ? min(static_cast<std::uint32_t>(I::kBM), p.m - work.m) : 0;
  const Pieces pieces = pieces_of<I>(p, rows);
  // Pieces along m: the rows of the warpgroup (64 at a time, all of them), or the tile's that exist.
  const std::uint32_t pieces_m = splits ? pieces.along_m : 4;
  const std::uint32_t end = splits ? pieces.count : 4 * I::kRowBlocks * I::kChunks;
  const std::uint32_t step = splits ? pieces.owners : 1;
  unsigned char* staged = splits ? &shared.a[0][0] + consumer * kPieceBytes : shared.staging[consumer];
  const bool by_lines = stores_side_by_side<I>(p.epilogue.d);
  const std::uint32_t next_split = pieces.of_block * kPieceBytes;
  if (splits) {
    send_splits<I>(p, shared, pieces, rank, consumer, sum);
    while (!ptx::mbarrier_try_wait_acquire_cluster(&shared.sums, 0)) {
    }
  }
#pragma unroll 1
  for (std::uint32_t piece = splits ? rank * I::kConsumers + consumer : 0; piece < end; piece += step) {
    const std::uint32_t chunk = piece / pieces_m;  // of 64 x 64; with splits, of 64 columns
    if (!splits && piece % 4 == 0) {
      if (piece > 0) ptx::barrier_sync(kStagingBarrier + consumer, 128);
#pragma unroll
      for (int i = 0; i < I::kRowBlocks * I::kChunks; ++i) {
        if (chunk == i) stage_sums(shared.staging[consumer], sum[i / I::kChunks] + i % I::kChunks * 32);
      }
      ptx::barrier_sync(kStagingBarrier + consumer, 128);
    }
    const std::uint32_t row = piece % pieces_m * 16 + thread / 8;  // in the chunk, or the tile
    const std::uint32_t m = first_row + row + (splits ? 0 : chunk / I::kChunks * 64);
    const std::uint32_t n = work.n + chunk % I::kChunks * 64 + thread % 8 * 8;
    const int count = min(8, static_cast<int>(p.n) - static_cast<int>(n));
    const int in_piece = static_cast<int>(splits ? row % 16 : row % 64);
    unsigned char* const here = staged;
    auto* const low = reinterpret_cast<float4*>(here + chunk_place(in_piece, static_cast<int>(thread % 8), 0));
    auto* const high = reinterpret_cast<float4*>(here + chunk_place(in_piece, static_cast<int>(thread % 8), 1));
    if (splits) staged += I::kConsumers * kPieceBytes;
    const bool exists = m < rows && count > 0;
    if (!exists && !by_lines) continue;
    float v[8] = {};
    if (exists) {
      for (std::uint32_t split = 0; split < p.splits; ++split) {
        add8(*(low + split * (next_split / sizeof(float4))), *(high + split * (next_split / sizeof(float4))), v);
      }
      finish_sums<I>(p, state, work, work.m + m, n, count, v);
    }
    if (!by_lines) {
      store8(p.epilogue.d, element_at(p.epilogue.d, work.batch, work.m + m, n), count, v);
      continue;
    }
    *low = make_float4(v[0], v[1], v[2], v[3]);
    *high = make_float4(v[4], v[5], v[6], v[7]);
    __syncwarp();
    // The warp's first row, and what it has of rows and columns.
    const std::uint32_t row_of_warp = m - thread % 32 / 8;
    const std::uint32_t column = work.n + chunk % I::kChunks * 64;
    const int rows_left = static_cast<int>(rows) - static_cast<int>(row_of_warp);
    const int columns_left = static_cast<int>(p.n) - static_cast<int>(column);
    const std::int64_t at = element_at(p.epilogue.d, work.batch, work.m + row_of_warp, column);
    const int first = in_piece - static_cast<int>(thread % 32 / 8);
    store_side_by_side(p.epilogue.d, at, here, first, rows_left, columns_left);
  }
  if (!splits) ptx::barrier_sync(kStagingBarrier + consumer, 128);
}

}  // namespace gpudnn::kernels::gemm::sm90
