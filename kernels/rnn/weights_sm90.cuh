// The gradients of a recurrent network's weights for Hopper: a list of matrix products over the same rows, and the sums
// of those rows, warp-specialised, persistent, on wgmma and TMA.
//
// Data flow of a block, for each tile of 128 m x kBN n and each k tile of 64 rows:
//   producer    one warp, one of whose threads waits for an empty stage and starts the copies that fill it: two boxes
//               of a, and of b as many as cover the width.
//   consumers   two warpgroups of 64 rows each. They ask the L2 for what the next tile adds to, multiply, and store by
//               warps (weights_store_sm90.cuh). In the first tile along n of a group they take a through registers,
//               and add up its rows for the biases.
// Both operands lie MN-major, as they are in memory. A kernel of a few microseconds spends most of them on fetching
// its own code from memory, line by line: so loops are not unrolled that need not be, and nothing is divided.
// Few tiles over many rows, and those that are left over when all blocks have had as many whole ones: the blocks of a
// cluster have a part of the rows each. Their sums meet as pieces of 16 rows x 64 columns, of which each block finishes
// a share, added in the order of the blocks.
//
// Limits: columns of a and b lie side by side, their rows a multiple of 16 bytes apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/ptx/clusterid.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/prefetch_l2.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma_tile_4d.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/rnn/weights_store_sm90.cuh"
#include "kernels/tile/stage_ring.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels {
namespace rnn_weights {

template <class I>
__device__ __forceinline__ void produce(const RnnWeights& w, Shared<I>& shared) {
  tile::PipelineState<I::kStages> state;
  const std::uint32_t rank = ptx::cluster_ctarank();
  for (std::uint32_t index = first_tile(w); index < w.tiles; index = tile_behind(w, index)) {
    const Tile t = tile_at<I>(w, index, rank);
    const tile::TensorMap* const a = &w.map[t.group->map];
    const std::int32_t column_a = t.group->column + t.m;
#pragma unroll 1
    for (std::int32_t k = t.k_begin; k < t.k_end; ++k) {
      tile::wait(&shared.empty[state.stage], state.parity ^ 1);
      if (threadIdx.x == 0) {
        std::uint64_t* const full = &shared.full[state.stage];
        unsigned char* const to = shared.stage[state.stage];
        const Depth depth = depth_of(*t.matrix, k);
        const tile::TensorMap* const b = &w.map[depth.part->map];
        ptx::mbarrier_arrive_expect_tx(full, I::kStageBytes);
#pragma unroll
        for (int i = 0; i < I::kBoxesOfA; ++i) {
          ptx::tma_tile_4d(to + i * kBoxBytes, a, full, column_a + i * kBox, depth.row + depth.part->shift_of_a, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < I::kBoxesOfB; ++i) {
          ptx::tma_tile_4d(to + (I::kBoxesOfA + i) * kBoxBytes, b, full, t.n + i * kBox, depth.row + depth.part->shift,
                           0, 0);
        }
      }
      __syncwarp();
      state.next();
    }
  }
}

template <class I>
__device__ __forceinline__ void release(Shared<I>& shared, int stage) {
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.empty[stage]);
}

template <class I>
struct Multiplication {
  using T = typename I::T;
  static constexpr int kSteps = kBox / kInstructionK;
  static constexpr std::uint64_t kStep = kInstructionK * kRowBytes >> 4;

  Shared<I>& shared;
  int warp;  // of the consumers
  tile::PipelineState<I::kStages> state;

  [[nodiscard]] __device__ __forceinline__ std::uint64_t b_of(const unsigned char* stage) const {
    return tile::operand_descriptor<kRowBytes>(stage + I::kBoxesOfA * kBoxBytes, kBoxBytes);
  }

  // The sums of a tile, of which there is a k tile at least.
  __device__ __forceinline__ void run(const Tile& t, float (&sum)[I::kBN / 2]) {
    int previous = -1;
#pragma unroll 1
    for (std::int32_t k = t.k_begin; k < t.k_end; ++k) {
      tile::wait(&shared.full[state.stage], state.parity);
      const unsigned char* const stage = shared.stage[state.stage];
      const std::uint64_t a = tile::operand_descriptor<kRowBytes>(stage + warp / 4 * kBoxBytes, kBoxBytes);
      const std::uint64_t b = b_of(stage);
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        ptx::wgmma_ss<T, T, I::kBN, ptx::Major::mn, ptx::Major::mn>(sum, a + step * kStep, b + step * kStep,
                                                                    step > 0 || previous >= 0 ? 1 : 0);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();
      if (previous >= 0) release(shared, previous);
      previous = state.stage;
      state.next();
    }
    ptx::wgmma_wait_group<0>();
    release(shared, previous);
  }

  // The same, and the sums of the rows of a that the thread has: a comes through registers, as the products and the
  // stages' copies take all of shared memory's bandwidth. Lane 4 i has rows i and i + 8 of the warp's in the end.
  __device__ __forceinline__ void run_summing(const Tile& t, float (&sum)[I::kBN / 2], float (&rows)[2]) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned row = lane % 8 + lane / 16 * 8;  // of k
    const unsigned vector = static_cast<unsigned>(warp) % 4 * 2 + lane / 8 % 2;
    const unsigned place = static_cast<unsigned>(warp) / 4 * kBoxBytes + row * kRowBytes + ((vector ^ lane % 8) << 4);
    bool is_first = true;
    rows[0] = rows[1] = 0;
#pragma unroll 1
    for (std::int32_t k = t.k_begin; k < t.k_end; ++k) {
      tile::wait(&shared.full[state.stage], state.parity);
      const unsigned char* const stage = shared.stage[state.stage];
      const std::uint64_t b = b_of(stage);
      std::uint32_t a[kSteps][4];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        ptx::ldmatrix_x4_trans(ptx::shared_address(stage) + place + step * kInstructionK * kRowBytes, a[step]);
      }
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        ptx::wgmma_rs<T, T, I::kBN, ptx::Major::mn>(sum, a[step], b + step * kStep, step > 0 || !is_first ? 1 : 0);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>();
      release(shared, state.stage);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          rows[i % 2] +=
              tile::widen<float>(tile::half_of<T>(a[step][i], 0)) + tile::widen<float>(tile::half_of<T>(a[step][i], 1));
        }
      }
      is_first = false;
      state.next();
    }
#pragma unroll
    for (float& total : rows) {
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
    }
  }
};

// Asks the L2 for what is in the warp's rows of d.
template <class I>
__device__ __forceinline__ void prefetch(const Tile& t, int warp) {
  constexpr int kLine = 64;  // elements of 128 bytes
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x % 32); i < kPieceRows * I::kChunks; i += 32) {
    const std::int32_t m = t.m + warp * kPieceRows + i / I::kChunks;
    const std::int32_t n = t.n + i % I::kChunks * kLine;
    if (m < t.group->skipped || m >= t.group->m || n >= t.matrix->n) continue;
    ptx::prefetch_l2(static_cast<const typename I::T*>(t.matrix->d) + std::int64_t{m} * t.matrix->n + n);
  }
}

template <class I>
__device__ __forceinline__ void consume(const RnnWeights& w, Shared<I>& shared, int warp) {
  Multiplication<I> multiplication = {shared, warp, {}};
  const std::uint32_t rank = ptx::cluster_ctarank();
  std::uint32_t asked = first_tile(w);  // the tile for which the L2 is asked next: one ahead
#pragma unroll 1
  for (std::uint32_t index = asked; index < w.tiles; index = tile_behind(w, index)) {
    const Tile t = tile_at<I>(w, index, rank);
#pragma unroll 1
    for (; w.adds && asked < w.tiles && asked <= tile_behind(w, index); asked = tile_behind(w, asked)) {
      prefetch<I>(tile_at<I>(w, asked, rank), warp);
    }
    float sum[I::kBN / 2];
    if (t.sums) {
      float rows[2];
      multiplication.run_summing(t, sum, rows);
      if (threadIdx.x % 4 == 0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int m = warp * kPieceRows + static_cast<int>(threadIdx.x % 32 / 4) + 8 * i;
          if (t.divided) {
            shared.total[m] = rows[i];
          } else {
            put_bias<typename I::T>(w, *t.group, t.m + m, rows[i]);
          }
        }
      }
    } else {
      multiplication.run(t, sum);
    }
    if constexpr (I::kMaxSplits > 1) {
      if (t.divided) {
        store_split_tile<I>(w, shared, t, warp, sum);
        return;
      }
    }
    store_tile<I>(w, shared, t, warp, sum);
  }
}

template <class I>
__global__ void __launch_bounds__(kThreads, 1) rnn_weights_sm90(const __grid_constant__ RnnWeights w) {
  constexpr int kFewRegisters = 40;
  constexpr int kManyRegisters = 232;
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < I::kStages; ++i) {
      ptx::mbarrier_init(&shared.full[i], 1);
      ptx::mbarrier_init(&shared.empty[i], kConsumerWarps);
    }
    ptx::mbarrier_init(&shared.received, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::griddepcontrol_wait();  // what made copies of odd rows
  if (warp >= 4) {
    ptx::setmaxnreg_inc<kManyRegisters>();
    consume<I>(w, shared, warp - 4);
    return;
  }
  ptx::setmaxnreg_dec<kFewRegisters>();
  if (warp == 0) produce<I>(w, shared);
  if (w.whole + ptx::clusterid() < w.tiles) {
    meet();
    meet();
  }
}

template <class I>
void launch_instance(const RnnWeights& weights, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  cuda::allow_shared_memory<&rnn_weights_sm90<I>>(kBytes);
  const auto splits = static_cast<std::uint32_t>(weights.splits);
  cuda::launch_kernel(&rnn_weights_sm90<I>, {weights.clusters * splits, kThreads, kBytes, splits, true}, stream,
                      weights);
}

}  // namespace rnn_weights

template <class T>
void launch_rnn_weights(const RnnWeights& weights, CUstream_st* stream) {
  using namespace rnn_weights;
  switch (weights.width) {
    case 128:
      return launch_instance<Instance<T, 128>>(weights, stream);
    case 160:
      return launch_instance<Instance<T, 160>>(weights, stream);
    case 192:
      return launch_instance<Instance<T, 192>>(weights, stream);
    case 224:
      return launch_instance<Instance<T, 224>>(weights, stream);
    default:
      return launch_instance<Instance<T, 256>>(weights, stream);
  }
}

}  // namespace gpudnn::kernels
