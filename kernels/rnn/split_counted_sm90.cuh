// States of a direct split sweep that are counted (`split_direct_sm90.cuh`): gradients of 32 places whose weights lie
// in registers and shared memory. What states there are of a step, 128 KiB a block and tile, neither the rest of shared
// memory nor registers take at once. Hopper.
// SPDX-License-Identifier: Apache-2.0
//
// Data flow: the threads of a block publish their states of a tile, meet a warp of a third warpgroup, which is there
// when it has counted the turn before, and arrive at a barrier. The warp waits there and adds one to the count of
// the tile and part. Another warp waits until all blocks of the part that this block multiplies have added theirs,
// and copies the states by TMA to a ring of stages, a panel of each warpgroup at a time, as far ahead as the ring
// goes: while the sums of a tile are on their way, the states of the next one come.
//
// The exchange holds two steps, and nothing of it is set anew: a block that publishes a step has all sums of it, for
// which all blocks had published the step before, when they had multiplied the states of two steps before.
#pragma once

#include "kernels/ptx/fence_proxy_async_global.cuh"
#include "kernels/ptx/gpu_scope.cuh"
#include "kernels/rnn/split_direct_block_sm90.cuh"

namespace gpudnn::kernels {

// Barriers of a block's threads and the warp that counts: a turn's states have been published; the warp is there, so
// that arrivals of two turns do not mix.
constexpr int kRnnPublished = 2;
constexpr int kRnnCounterThere = 5;

template <class Block>
__device__ __forceinline__ void run_rnn_direct_copies(const RnnSplit& p, const Block& block) {
  const RnnSplitShape& shape = p.shape;
  const int direction = static_cast<int>(blockIdx.z);
  const std::int64_t tiles_of_all = std::int64_t{shape.tiles} * p.layer.directions;
  auto* const exchange = static_cast<unsigned char*>(p.exchange);
  const int parts = shape.parts;
  const auto count_of = [&](int tile, int part) {
    unsigned char* const counts = exchange + tiles_of_all * kRnnCountedSlots * parts * block.tile_bytes;
    return reinterpret_cast<std::uint32_t*>(counts + ((std::int64_t{direction} * shape.tiles + tile) * parts + part) *
                                                         kRnnCountBytes);
  };
  const int steps = p.layer.rows.steps;
  const int slices = static_cast<int>(gridDim.y);
  const int warp = static_cast<int>(threadIdx.x) / 32 - Block::kThreads / 32;
  if (warp == 0 && threadIdx.x % 32 == 0) {
    typename Block::Ring ring;
    const int blocks_of_part = min(block.groups_of_part(), shape.groups - block.rank * block.groups_of_part()) * parts;
#pragma unroll 1
    for (int step = 1; step < steps; ++step) {
#pragma unroll 1
      for (int tile = static_cast<int>(blockIdx.y); tile < shape.tiles; tile += slices) {
        while (static_cast<int>(ptx::ld_acquire_gpu(count_of(tile, block.rank))) < step * blocks_of_part) {
        }
        ptx::fence_proxy_async_global();
        const std::int64_t at =
            (std::int64_t{direction} * shape.tiles + tile) * kRnnCountedSlots + step % kRnnCountedSlots;
        block.copy_states(exchange + (at * parts + block.rank) * block.tile_bytes, ring);
      }
    }
  }
  if (warp == 1) {
#pragma unroll 1
    for (int step = 0; step + 1 < steps; ++step) {
#pragma unroll 1
      for (int tile = static_cast<int>(blockIdx.y); tile < shape.tiles; tile += slices) {
        ptx::barrier_arrive(kRnnCounterThere, Block::kThreads + 32);
        ptx::barrier_sync(kRnnPublished, Block::kThreads + 32);
        if (threadIdx.x % 32 == 0) ptx::red_release_gpu_add(count_of(tile, block.own_part()), 1);
        __syncwarp();
      }
    }
  }
}

}  // namespace gpudnn::kernels
