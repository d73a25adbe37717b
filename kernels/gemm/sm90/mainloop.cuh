// The multiplications of a matrix product on Hopper: a consumer warpgroup works off the stages of a tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/pipeline.cuh"
#include "kernels/gemm/sm90/scheduler.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::gemm::sm90 {

using ptx::Major;

template <class I>
using Sums = float[I::kRowBlocks][I::kBN / 2];

template <class I>
__device__ __forceinline__ void clear(Sums<I>& sum) {
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < I::kBN / 2; ++i) sum[block][i] = 0;
  }
}

// Multiplies one stage into the accumulators.
template <class I, class A, class B, Major kMajorA, Major kMajorB>
__device__ __forceinline__ void multiply_stage(const unsigned char* a, const unsigned char* b, Sums<I>& sum,
                                               int scale_d) {
  constexpr bool kAIsMnMajor = kMajorA == Major::mn;
  constexpr bool kBIsMnMajor = kMajorB == Major::mn;
  // 16 rows of k, or 32 bytes along a row; in units of 16 bytes.
  constexpr int kStepOfA = (kAIsMnMajor ? I::kInstructionK * kRowBytes : 32) >> 4;
  constexpr int kStepOfB = (kBIsMnMajor ? I::kInstructionK * kRowBytes : 32) >> 4;
  // 64 m further: the next box, or 64 rows.
  constexpr int kNextRows = (kAIsMnMajor ? I::kBoxBytes : 64 * kRowBytes) >> 4;
  const std::uint64_t a0 = tile::operand_descriptor<kRowBytes>(a, kAIsMnMajor ? I::kBoxBytes : 16);
  const std::uint64_t b0 = tile::operand_descriptor<kRowBytes>(b, kBIsMnMajor ? I::kBoxBytes : 16);
#pragma unroll
  for (int step = 0; step < I::kBK / I::kInstructionK; ++step) {
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
      ptx::wgmma_ss<A, B, I::kBN, kMajorA, kMajorB>(
          sum[block], a0 + static_cast<std::uint64_t>(step * kStepOfA + block * kNextRows),
          b0 + static_cast<std::uint64_t>(step * kStepOfB), step == 0 ? scale_d : 1);
    }
  }
}

// All k tiles of a work tile. The stage before is released when the products of the next one are under way.
template <class I, class A, class B, Major kMajorA, Major kMajorB>
__device__ __forceinline__ void multiply_stages(Shared<I>& shared, std::uint32_t count, int consumer, bool multicast,
                                                Sums<I>& sum, PipelineState<I::kStages>* state) {
  constexpr int kMyRows = kMajorA == Major::mn ? I::kBoxBytes : 64 * kRowBytes;
  const int a_offset = I::kPingPong ? 0 : consumer * I::kRowBlocks * kMyRows;
  int previous = -1;
  for (std::uint32_t k = 0; k < count; ++k) {
    tile::wait(&shared.full[state->stage], state->parity);
    if (k + 1 == count) pass_order<I>(shared, consumer);
    ptx::wgmma_fence();
    multiply_stage<I, A, B, kMajorA, kMajorB>(shared.a[state->stage] + a_offset, shared.b[state->stage], sum, 1);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (previous >= 0) release<I>(shared, previous, multicast);
    previous = state->stage;
    state->next();
  }
  ptx::wgmma_wait_group<0>();
  release<I>(shared, previous, multicast);
}

// The same for 8-bit floats, whose products the tensor core sums with fewer bits than a float has, and for the terms of
// floats, whose sums it would cut: the sums of a k tile are added to the others outside of it.
template <class I, class A, class B>
__device__ __forceinline__ void multiply_promoted(Shared<I>& shared, std::uint32_t count, int consumer, bool multicast,
                                                  Sums<I>& sum, PipelineState<I::kStages>* state) {
  const int a_offset = I::kPingPong ? 0 : consumer * I::kRowBlocks * 64 * kRowBytes;
  Sums<I> part;
  clear<I>(part);
  for (std::uint32_t k = 0; k < count; ++k) {
    tile::wait(&shared.full[state->stage], state->parity);
    if (k + 1 == count) pass_order<I>(shared, consumer);
    ptx::wgmma_fence();
    multiply_stage<I, A, B, Major::k, Major::k>(shared.a[state->stage] + a_offset, shared.b[state->stage], part, 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    release<I>(shared, state->stage, multicast);
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < I::kBN / 2; ++i) sum[block][i] += part[block][i];
    }
    state->next();
  }
}

template <class I, class A, class B>
__device__ __forceinline__ void multiply_f8(const Params& p, Shared<I>& shared, std::uint32_t count, int consumer,
                                            bool multicast, Sums<I>& sum, PipelineState<I::kStages>* state) {
  if constexpr (I::kPromotes) {
    if (p.promotes) return multiply_promoted<I, A, B>(shared, count, consumer, multicast, sum, state);
  }
  multiply_stages<I, A, B, Major::k, Major::k>(shared, count, consumer, multicast, sum, state);
}

// The products of a work tile. The majors and 8-bit formats are branches around the whole loop.
template <class I>
__device__ __forceinline__ void multiply(const Params& p, Shared<I>& shared, const WorkTile& work,
                                         std::uint32_t sequence, int consumer, Sums<I>& sum,
                                         PipelineState<I::kStages>* state) {
  using T = typename I::T;
  clear<I>(sum);
  wait_for_order<I>(shared, sequence);
  if (work.k_begin >= work.k_end) {
    pass_order<I>(shared, consumer);
    return;
  }
  const std::uint32_t count = work.k_end - work.k_begin;
  const bool multicast = pairs_up<I>(p);
  if constexpr (sizeof(T) == 2 && I::kPromotes) {
    multiply_promoted<I, T, T>(shared, count, consumer, multicast, sum, state);
  } else if constexpr (sizeof(T) == 2) {
    if (p.a_mn_major) {
      if (!I::kSwapAb && p.b_mn_major) {
        multiply_stages<I, T, T, Major::mn, Major::mn>(shared, count, consumer, multicast, sum, state);
      } else {
        multiply_stages<I, T, T, Major::mn, Major::k>(shared, count, consumer, multicast, sum, state);
      }
    } else if (!I::kSwapAb && p.b_mn_major) {
      multiply_stages<I, T, T, Major::k, Major::mn>(shared, count, consumer, multicast, sum, state);
    } else {
      multiply_stages<I, T, T, Major::k, Major::k>(shared, count, consumer, multicast, sum, state);
    }
  } else if constexpr (sizeof(T) == 1) {
    using E4M3 = tile::Float8E4M3;
    using E5M2 = tile::Float8E5M2;
    if (p.a_is_e5m2) {
      if (p.b_is_e5m2) {
        multiply_f8<I, E5M2, E5M2>(p, shared, count, consumer, multicast, sum, state);
      } else {
        multiply_f8<I, E5M2, E4M3>(p, shared, count, consumer, multicast, sum, state);
      }
    } else if (p.b_is_e5m2) {
      multiply_f8<I, E4M3, E5M2>(p, shared, count, consumer, multicast, sum, state);
    } else {
      multiply_f8<I, E4M3, E4M3>(p, shared, count, consumer, multicast, sum, state);
    }
  } else {
    multiply_stages<I, T, T, Major::k, Major::k>(shared, count, consumer, multicast, sum, state);
  }
}

}  // namespace gpudnn::kernels::gemm::sm90
