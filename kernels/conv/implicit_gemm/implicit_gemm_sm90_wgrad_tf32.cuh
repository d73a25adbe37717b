// The filter gradient of the Hopper implicit GEMM in TF32: dw[k][tap][c] = sum over pixels of dy[pixel][k] * x[pixel +
// tap][c], on wgmma.
//
// The reduction runs along pixels, and both tensors have their pixels as rows; wgmma reads TF32 operands only with the
// reduction along rows. So both are transposed on their way from shared memory into the matrix unit, dy (A) through
// registers and x (B) in place. implicit_gemm_sm90_wgrad_tf32_layout.hpp has the index maps.
//
// Data flow of a block, one per multiprocessor; a k tile is 32 pixels:
//   producer     warp 0, as in every direction: im2col boxes of 32 pixels x 128 bytes, rounded to TF32
//                by TMA.                                                                         -> full
//   transposers  warpgroup 1. A warp reads a box of x (32 x 32) into its registers, 4 x 4 to a square, and writes it
//                back transposed.                                                                            -> ready
//   consumers    the other 1 or 2 warpgroups. Fragments of dy come by loads of 16 (or 8) bytes, which bring a thread
//                the same pixel of 4 (2) neighbouring filters: these are its rows of the products, and the filters'
//                order is put right when sums are stored. Half of a k tile is loaded while the half before is
//                multiplied.                                                                                 -> empty
//   All consumers work on the same tile. Sums go to C, or to the partial sums of a split reduction, from registers.
//
// Shared memory is the limit, at 128 bytes a cycle. A k tile of BM x BN moves
//   wgmma's reads of B    BM BN 2 bytes (64 bytes a cycle of multiplications: once for each 64 rows)
//   copies                (BM + BN) 128
//   fragments of A        BM 128
//   transposition of B    BN 256
// and takes BM BN / 32 cycles to multiply:
//                bytes of reads, copies, A, B    cycles    cycles of products    share
//   256 x 128    64 K   48 K   32 K   32 K       1408      1024                  73 %
//   128 x 128    32 K   32 K   16 K   32 K        896       512                  57 %
//    64 x 128    16 K   24 K    8 K   32 K        640       256                  40 %
// B is the operand that all consumers share, so that it is transposed once for each of their rows; the tile is large
// along the rows.
//
// Registers of a thread: a consumer 128 (or 64) sums and 32 (16) of fragments, a transposer 32 elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_epilogue.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_multiply.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_producer.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_wgrad_tf32_layout.hpp"
#include "kernels/ptx/setmaxnreg.cuh"

namespace gpudnn::kernels::sm90 {

constexpr int kTransposerRegisters = 72;
constexpr int kTransposerWarps = 4;

template <int kShape>
struct WgradTf32 {
  using T = float;
  static constexpr TileShape kTile = kShapes[kShape];
  static constexpr Direction kDirection = Direction::filter_gradient;
  static constexpr bool kIsFilterGradient = true;
  static constexpr bool kClusterSplitK = false;
  static constexpr bool kStreamK = false;
  static constexpr bool kPingPong = false;
  static constexpr int kBM = kTile.bm;
  static constexpr int kBN = kTile.bn;
  static constexpr int kStages = kTile.stages;
  static constexpr int kCluster = 1;
  static constexpr int kConsumers = kTile.consumers;  // warpgroups
  static constexpr int kThreads = 128 * (2 + kConsumers);
  static constexpr int kRegistersLeft = (65536 / 128 - kProducerRegisters - kTransposerRegisters) / kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kRegistersLeft > 232 ? 232 : kRegistersLeft;
  static constexpr int kRowElements = kRowBytes / 4;
  static constexpr int kChunkElements = kRowElements;
  static constexpr bool kTransposesFilter = false;
  static constexpr int kBK = kRowElements;
  static constexpr int kRowBlocks = kBM / 64 / kConsumers;  // of 64 rows, of a warpgroup
  static constexpr int kBoxBytes = wgrad_tf32::kBoxBytes;
  static constexpr int kABytes = kBM * kRowBytes;
  static constexpr int kBBytes = kBN * kRowBytes;
  static constexpr int kTileWarps = 4 * kConsumers;

  static __device__ __forceinline__ std::uint32_t row_of_fragment(std::uint32_t row_block, std::uint32_t thread,
                                                                  std::uint32_t half) {
    const auto warp = static_cast<int>(row_block / kRowBlocks * 4 + thread / 32);
    return static_cast<std::uint32_t>(wgrad_tf32::filter_of_fragment(kRowBlocks, warp, static_cast<int>(thread % 32),
                                                                     static_cast<int>(row_block % kRowBlocks),
                                                                     static_cast<int>(half)));
  }

  static_assert(kTile.transposes && !kTile.ping_pong && kTile.k_bytes == kRowBytes, "shapes for this");
  static_assert(kRowBlocks == 1 || kRowBlocks == 2, "vectors of 2 or 4 filters");
  static_assert(kBM == 64 * kRowBlocks * kConsumers && kBM % wgrad_tf32::kBoxSide == 0, "rows are shared evenly");
  static_assert(kBN / wgrad_tf32::kBoxSide == kTransposerWarps, "a box for each warp");
  static_assert(kRowBlocks * kBN / 2 + kRowBlocks * 16 + 32 <= kConsumerRegisters, "sums and fragments leave room");
};

template <int kShape>
struct alignas(1024) Shared<WgradTf32<kShape>> {
  using I = WgradTf32<kShape>;
  unsigned char a[I::kStages][I::kABytes];
  unsigned char b[I::kStages][I::kBBytes];
  std::uint64_t full[I::kStages];
  std::uint64_t ready[I::kStages];  // B has been transposed
  std::uint64_t empty[I::kStages];
};

// Calls visit(k tiles) for each work item of this block, in order.
template <class I, class Visit>
__device__ __forceinline__ void for_each_work(const Params& p, Visit visit) {
  const std::uint32_t end = end_index<I>(p);
  for (std::uint32_t index = first_index<I>(p); index < end; index = next_index<I>(p, index)) {
    visit(work_item<I>(p, index));
  }
}

// --- transposers ---------------------------------------------------------------------------------------------------

__device__ __forceinline__ void transpose_box(unsigned char* box, int lane) {
  constexpr int kRounds = 2;
  float4 rows[kRounds][4];
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const wgrad_tf32::Square square = wgrad_tf32::square_of(lane, round);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      rows[round][i] = *reinterpret_cast<const float4*>(box + wgrad_tf32::from_at(square, i));
    }
  }
  __syncwarp();  // who writes may overwrite what others read
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const wgrad_tf32::Square square = wgrad_tf32::square_of(lane, round);
    const float4(&r)[4] = rows[round];
    const float4 columns[4] = {make_float4(r[0].x, r[1].x, r[2].x, r[3].x), make_float4(r[0].y, r[1].y, r[2].y, r[3].y),
                               make_float4(r[0].z, r[1].z, r[2].z, r[3].z),
                               make_float4(r[0].w, r[1].w, r[2].w, r[3].w)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      *reinterpret_cast<float4*>(box + wgrad_tf32::to_at(square, i)) = columns[i];
    }
  }
}

template <class I>
__device__ __forceinline__ void transpose(const Params& p, Shared<I>& shared) {
  const int warp = static_cast<int>(threadIdx.x % 128) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  tile::PipelineState<I::kStages> turn;
  for_each_work<I>(p, [&](const Work& work) {
    const bool exists = work.n * kTransposerWarps + static_cast<std::uint32_t>(warp) < p.n_chunks;
    for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
      tile::wait(&shared.full[turn.stage], turn.parity);
      if (exists) {
        transpose_box(shared.b[turn.stage] + warp * I::kBoxBytes, lane);
        ptx::fence_proxy_async();  // wgmma reads what was written here
      }
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(&shared.ready[turn.stage]);
      turn.next();
    }
  });
}

// --- consumers -----------------------------------------------------------------------------------------------------

constexpr int kStepsOfHalf = 2;  // of 8 positions of k, in half a k tile

template <class I>
using Fragments = std::uint32_t[kStepsOfHalf][I::kRowBlocks][4];

// `from`: for each half of the columns, the thread's place in the first 8 pixels.
template <class I>
__device__ __forceinline__ void load_fragments(const unsigned char* const (&from)[2], int half, Fragments<I>& to) {
#pragma unroll
  for (int step = 0; step < kStepsOfHalf; ++step) {
#pragma unroll
    for (int column_half = 0; column_half < 2; ++column_half) {
      const unsigned char* const at = from[column_half] + (half * kStepsOfHalf + step) * 8 * kRowBytes;
      if constexpr (I::kRowBlocks == 2) {
        const uint4 filters = *reinterpret_cast<const uint4*>(at);
        to[step][0][2 * column_half] = filters.x;
        to[step][0][2 * column_half + 1] = filters.y;
        to[step][1][2 * column_half] = filters.z;
        to[step][1][2 * column_half + 1] = filters.w;
      } else {
        const uint2 filters = *reinterpret_cast<const uint2*>(at);
        to[step][0][2 * column_half] = filters.x;
        to[step][0][2 * column_half + 1] = filters.y;
      }
    }
  }
}

template <class I>
__device__ __forceinline__ void multiply_half(const Fragments<I>& a, const unsigned char* b, int half,
                                              float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  const std::uint64_t b0 = tile::operand_descriptor<kRowBytes>(b, 16);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kStepsOfHalf; ++step) {
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
      ptx::wgmma_tf32_registers<I::kBN>(sum[block], a[step][block],
                                        b0 + static_cast<std::uint64_t>((half * kStepsOfHalf + step) * 32 >> 4));
    }
  }
  ptx::wgmma_commit_group();
}

template <class I>
__device__ __forceinline__ void multiply_work(Shared<I>& shared, const Work& work, const int (&offset)[2],
                                              float (&sum)[I::kRowBlocks][I::kBN / 2],
                                              tile::PipelineState<I::kStages>* turn) {
  clear<I>(sum);
  if (work.k_begin >= work.k_end) return;
  Fragments<I> first;
  Fragments<I> second;
  int previous = -1;
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const unsigned char* const a = shared.a[turn->stage];
    const unsigned char* const b = shared.b[turn->stage];
    const unsigned char* const from[2] = {a + offset[0], a + offset[1]};
    tile::wait(&shared.full[turn->stage], turn->parity);
    load_fragments<I>(from, 0, first);
    tile::wait(&shared.ready[turn->stage], turn->parity);
    multiply_half<I>(first, b, 0, sum);
    ptx::wgmma_wait_group<1>();  // the second half before is done, its registers are free
    if (previous >= 0) release<I>(shared, previous);
    load_fragments<I>(from, 1, second);
    multiply_half<I>(second, b, 1, sum);
    ptx::wgmma_wait_group<1>();
    previous = turn->stage;
    turn->next();
  }
  ptx::wgmma_wait_group<0>();
  release<I>(shared, previous);
}

template <class I>
__device__ __forceinline__ void store_sums(const Params& p, const Work& work, int consumer,
                                           const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  using T = typename I::T;
  constexpr int kGroups = I::kRowElements / 8;  // of 8 columns, in a chunk
  const std::uint32_t thread = threadIdx.x % 128;
  const int pair = static_cast<int>(thread % 4 * 2);
#pragma unroll
  for (int chunk = 0; chunk < I::kBN / I::kRowElements; ++chunk) {
    const ColumnChunk columns = column_chunk<I>(p, work, chunk);
    if (columns.valid <= 0) break;
#pragma unroll
    for (int i = 0; i < 2 * I::kRowBlocks; ++i) {
      const int block = i / 2;
      const int half = i % 2;
      const auto row_block = static_cast<std::uint32_t>(consumer * I::kRowBlocks + block);
      const std::uint32_t m = work.m * I::kBM + I::row_of_fragment(row_block, thread, static_cast<std::uint32_t>(half));
      const std::int64_t row = row_offset<I>(p, work, m, p.c_step, true);
      if (row < 0) continue;
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        if (8 * j + pair >= columns.valid) continue;
        float low = sum[block][4 * (chunk * kGroups + j) + 2 * half];
        float high = sum[block][4 * (chunk * kGroups + j) + 2 * half + 1];
        const std::int64_t at = row + columns.offset + (8 * j + pair) * static_cast<std::int64_t>(sizeof(T));
        combine_pair<I>(p, work, columns, 8 * j + pair, at, &low, &high);
        *reinterpret_cast<PairBits<T>*>(static_cast<char*>(p.c) + at) = pack_pair<T>(low, high);
      }
    }
  }
}

template <class I>
__device__ __forceinline__ void consume_tiles(const Params& p, Shared<I>& shared, int consumer) {
  const int warp = consumer * 4 + static_cast<int>(threadIdx.x % 128) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int offset[2] = {wgrad_tf32::fragment_at(I::kRowBlocks, warp, lane, 0),
                         wgrad_tf32::fragment_at(I::kRowBlocks, warp, lane, 1)};
  tile::PipelineState<I::kStages> turn;
  for_each_work<I>(p, [&](const Work& work) {
    float sum[I::kRowBlocks][I::kBN / 2];
    multiply_work<I>(shared, work, offset, sum, &turn);
    if (p.splits > 1) {
      store_partials<I>(p, work, consumer, sum);
    } else {
      store_sums<I>(p, work, consumer, sum);
    }
  });
}

// By all warps side by side, as in the other directions.
template <class I>
__device__ __forceinline__ void make_transposing_barriers(const Params& p, Shared<I>& shared, int warp) {
  if (threadIdx.x % 32 != 0) return;
  if (warp == 0) {
    ptx::prefetch_tensormap(&p.a[0]);
    ptx::prefetch_tensormap(&p.b);
  }
#pragma unroll
  for (int stage = warp; stage < I::kStages; stage += I::kThreads / 32) {
    ptx::mbarrier_init(&shared.full[stage], 1);
    ptx::mbarrier_init(&shared.ready[stage], kTransposerWarps);
    ptx::mbarrier_init(&shared.empty[stage], I::kTileWarps);
    ptx::fence_mbarrier_init();
  }
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) wgrad_tf32_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  make_transposing_barriers<I>(p, shared, warp);
  start_together<I>();
  if (warp < 4) {
    ptx::setmaxnreg_dec<kProducerRegisters>();
    if (warp == 0) produce<I>(p, shared);
  } else if (warp < 4 + kTransposerWarps) {
    ptx::setmaxnreg_dec<kTransposerRegisters>();
    transpose<I>(p, shared);
  } else {
    if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    consume_tiles<I>(p, shared, warp / 4 - 2);
  }
}

}  // namespace gpudnn::kernels::sm90
