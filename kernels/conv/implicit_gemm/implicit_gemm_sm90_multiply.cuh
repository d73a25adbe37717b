// The Hopper implicit GEMM's multiplications: a consumer warpgroup works off the stages of a tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_addend.cuh"
#include "kernels/ptx/wgmma_n160.cuh"
#include "kernels/ptx/wgmma_n96.cuh"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/stage_ring.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::sm90 {

// Multiplies one stage into the accumulators.
template <class I>
__device__ __forceinline__ void multiply_stage(const unsigned char* a, const unsigned char* b,
                                               float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  constexpr int kSteps = I::kBK / I::kInstructionK;
  // 16 rows, or 32 bytes along a row; in units of 16 bytes.
  constexpr int kStepOfA = (I::kAIsMnMajor ? I::kInstructionK * kRowBytes : 32) >> 4;
  constexpr int kStepOfB = (I::kBIsMnMajor ? I::kInstructionK * kRowBytes : 32) >> 4;
  // 64 m further: the next box, or 64 rows.
  constexpr int kNextRows = (I::kAIsMnMajor ? I::kBoxBytes : 64 * I::kKBytes) >> 4;
  constexpr int kBytesOfA = I::kAIsMnMajor ? kRowBytes : I::kKBytes;
  constexpr int kBytesOfB = I::kBIsMnMajor ? kRowBytes : I::kKBytes;
  const std::uint64_t a0 = tile::operand_descriptor<kBytesOfA>(a, I::kAIsMnMajor ? I::kBoxBytes : 16);
  const std::uint64_t b0 = tile::operand_descriptor<kBytesOfB>(b, I::kBIsMnMajor ? I::kBoxBytes : 16);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
      const std::uint64_t a_here = a0 + static_cast<std::uint64_t>(step * kStepOfA + block * kNextRows);
      const std::uint64_t b_here = b0 + static_cast<std::uint64_t>(step * kStepOfB);
      if constexpr (I::kBN == 96) {
        ptx::wgmma_n96<typename I::T, I::kAIsMnMajor, I::kBIsMnMajor>(sum[block], a_here, b_here);
      } else if constexpr (I::kBN == 160) {
        ptx::wgmma_n160<typename I::T>(sum[block], a_here, b_here);
      } else {
        ptx::wgmma<typename I::T, I::kBN, I::kAIsMnMajor, I::kBIsMnMajor>(sum[block], a_here, b_here);
      }
    }
  }
}

// To all blocks that share the stage's loads.
template <class I>
__device__ __forceinline__ void release(Shared<I>& shared, int stage) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (I::kCluster > 1) {
    if (lane < I::kCluster) {
      ptx::mbarrier_arrive_cluster(ptx::mapa(ptx::shared_address(&shared.empty[stage]), lane));
    }
  } else {
    if (lane == 0) ptx::mbarrier_arrive(&shared.empty[stage]);
  }
}

// Tile number `sequence` of the block begins when the one before has seen its last stage filled: a wait for a phase of
// a barrier cannot tell it from the phase before the last. Each warp passes the turn, so that none is left a phase
// behind.
template <class I>
__device__ __forceinline__ void ping_pong_wait(Shared<I>& shared, std::uint32_t sequence) {
  if (!I::kPingPong || sequence == 0) return;
  const std::uint32_t before = sequence - 1;
  tile::wait(&shared.fetched[before % I::kConsumers], before / I::kConsumers & 1u);
}
template <class I>
__device__ __forceinline__ void ping_pong_pass(Shared<I>& shared, int consumer) {
  if (I::kPingPong && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.fetched[consumer]);
}

template <class I>
__device__ __forceinline__ void clear(float (&sum)[I::kRowBlocks][I::kBN / 2]) {
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < I::kBN / 2; ++i) sum[block][i] = 0;
  }
}

// Adds a tile's products to the sums. `adds`: stages of the addend follow.
template <class I>
__device__ __forceinline__ void add_products(Shared<I>& shared, const Work& work, std::uint32_t sequence, int consumer,
                                             float (&sum)[I::kRowBlocks][I::kBN / 2],
                                             tile::PipelineState<I::kStages>* turn, bool adds = false) {
  ping_pong_wait<I>(shared, sequence);
  if (work.k_begin >= work.k_end) {
    ping_pong_pass<I>(shared, consumer);
    return;
  }
  constexpr int kMyRows = I::kAIsMnMajor ? I::kBoxBytes : 64 * I::kKBytes;
  const int a_offset = I::kPingPong ? 0 : consumer * I::kRowBlocks * kMyRows;
  int previous = -1;
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    tile::wait(&shared.full[turn->stage], turn->parity);
    if (k + 1 == work.k_end) {
      if constexpr (I::kPingPong && kHasFusedEpilogue<I>) {
        if (adds) {
          tile::PipelineState<I::kStages> next = *turn;
          next.next();
          wait_for_addend<I>(shared, next);
        }
      }
      ping_pong_pass<I>(shared, consumer);
    }
    ptx::wgmma_fence();
    multiply_stage<I>(shared.a[turn->stage] + a_offset, shared.b[turn->stage], sum);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (previous >= 0) release<I>(shared, previous);
    previous = turn->stage;
    turn->next();
  }
  ptx::wgmma_wait_group<0>();
  release<I>(shared, previous);
}

template <class I>
__device__ __forceinline__ void multiply(Shared<I>& shared, const Work& work, std::uint32_t sequence, int consumer,
                                         float (&sum)[I::kRowBlocks][I::kBN / 2],
                                         tile::PipelineState<I::kStages>* turn) {
  clear<I>(sum);
  add_products<I>(shared, work, sequence, consumer, sum, turn);
}

}  // namespace gpudnn::kernels::sm90
