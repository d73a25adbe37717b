// The matrix product for Hopper: warp-specialised, persistent, on wgmma and TMA.
//
// D = epilogue(alpha * A B), A is m x k and B k x n, both with any major of 16-bit elements and K-major of others.
//
// Data flow of a block:
//   producer    one warp. For each work tile and k tile it waits for an empty stage, and one of its threads starts the
//               copies that fill it (tma_tile.cuh). Pairs of blocks load an operand that both multiply once
//               (multicast).
//   consumers   1 or 2 warpgroups. They wait for a full stage, multiply it into their registers, and release the stage
//               before (mainloop.cuh). A tile done, they store it (store_common.cuh and its like): ping-pong consumers
//               while another multiplies.
//
// Limits: operands' rows (columns, if MN-major) are multiples of 16 bytes apart; extents below 2^31.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/gemm/sm90/exchange_halves.cuh"
#include "kernels/gemm/sm90/store_boxes.cuh"
#include "kernels/gemm/sm90/store_fragments.cuh"
#include "kernels/gemm/sm90/store_lines.cuh"
#include "kernels/gemm/sm90/store_rows.cuh"
#include "kernels/gemm/sm90/store_swapped.cuh"
#include "kernels/gemm/sm90/tma_tile.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/setmaxnreg.cuh"

namespace gpudnn::kernels::gemm::sm90 {

template <class I>
__device__ __forceinline__ void consume(const Params& p, Shared<I>& shared, int consumer) {
  PipelineState<I::kStages> pipeline;
  EpilogueState epilogue(p.epilogue);
  const bool halves = exchanges_halves<I>(p);
  const int columns = halves ? I::kBN / 2 : I::kBN;  // that this block stores
  std::uint32_t sequence = 0;
  int area = 0;
  for (Scheduler<I> scheduler(p); scheduler.has_tile(); scheduler.next(), ++sequence) {
    WorkTile work = scheduler.tile();
    if (halves) work.n += scheduler.rank * (I::kBN / 2);
    const bool is_mine = !I::kPingPong || sequence % I::kConsumers == static_cast<std::uint32_t>(consumer);
    if (!is_mine && p.splits == 1) {
      pipeline.skip(work.k_end - work.k_begin);
      continue;
    }
    Sums<I> sum;
    [[maybe_unused]] RowBias<I> bias;
    if constexpr (!I::kPlain && !I::kSwapAb) {
      if (p.store != Store::rows) {
        fetch_bias<I>(p, work, &bias);
        if (is_mine) prefetch_addend<I>(p, work, consumer);
      }
    }
    if (is_mine) multiply<I>(p, shared, work, sequence, consumer, sum, &pipeline);
    if constexpr (kExchangesHalves<I>) {
      if (halves) exchange_halves<I>(shared, scheduler.rank, consumer, sum);
    }
    if constexpr (I::kSwapAb) {
      store_swapped<I>(p, shared, work, sum, &epilogue);
    } else if constexpr (I::kBN % 64 != 0) {
      store_plain<I>(p, shared, work, consumer, sum, epilogue.alpha, columns, &area);
    } else if (p.store == Store::lines) {
      if constexpr (kStoresLines<I>) store_lines<I>(p, shared, work, consumer, sum, epilogue.alpha);
    } else if (p.store == Store::rows) {
      store_rows<I>(p, shared, work, consumer, sum, &epilogue);
    } else if constexpr (I::kPlain) {
      store_plain<I>(p, shared, work, consumer, sum, epilogue.alpha, columns, &area);
    } else {
      share_bias<I>(p, shared, consumer, bias);
      store_fragments<I>(p, shared, work, consumer, sum, &epilogue, columns, &area);
    }
  }
  finish_amax(p.epilogue, epilogue);
  // TMA reads the staging area until then.
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, I::kTile.residency) gemm_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool multicast = pairs_up<I>(p);
  // The start is a chain of accesses to memory that nobody has touched yet: its links are forged side by side.
  if (warp == 0) {
    start_loads<I>(p, shared);
  } else {
    if (!I::kSwapAb && threadIdx.x == 32 && p.stores_boxes) ptx::prefetch_tensormap(&p.d);
    make_barriers<I>(p, shared, static_cast<unsigned>(warp - 1));
  }
  __syncwarp();
  __syncthreads();
  // A release would wait for all memory that is under way; barriers that are made need none.
  if (multicast || sends_early<I>(p)) ptx::cluster_arrive_relaxed();
  if (multicast) ptx::cluster_wait();
  if (__builtin_expect(warp < 4, 1)) {
    ptx::setmaxnreg_dec<kProducerRegisters>();
    if (warp == 0) produce<I>(p, shared);
    __syncwarp();
    if (p.splits > 1) {  // the consumers meet those of other blocks
      if (!sends_early<I>(p)) ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    }
  } else {
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    consume<I>(p, shared, warp / 4 - 1);
  }
  // Another block may still write to a block's shared memory until the producer has seen its stages released, and the
  // consumers have waited for its sums: nothing comes after that, and each leaves alone.
}

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, std::uint32_t cluster, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(kBytes <= 227 * 1024 / I::kTile.residency - (I::kTile.residency - 1) * 512, "shared memory of a block");
  cuda::allow_shared_memory<&gemm_sm90<I>>(kBytes);
  const cuda::LaunchConfig config = {blocks, I::kThreads, kBytes, cluster};
  cuda::launch_kernel(&gemm_sm90<I>, config, stream, params);
}

}  // namespace gpudnn::kernels::gemm::sm90
