// Pointwise convolution on planes (NCHW) for Hopper: warp-specialised, persistent, on wgmma and TMA, with every tensor
// read and written where it lies. conv1x1_nchw_sm90.hpp has the mathematics.
//
// Data flow of a block, one per multiprocessor:
//   producer    warp 0. For each work item and block of the sum it waits for an empty stage and starts the copies that
//               fill it, in rows of 128 bytes, in the swizzle that wgmma reads:
//                 across   a box of planes x 128 bytes of pixels for each chunk, and a block of the filter. In a
//                          cluster each block fetches a share of the chunks for both
//                 along    boxes of 64 planes x one chunk, of both tensors
//               Where planes do not begin and end at multiples of 16 bytes all of warps 0 to 3 copy the image tensors,
//               by pieces of 8 bytes into the same places; the filter comes as ever.
//   consumers   the other 2 or 3 warpgroups. They wait for a full stage, multiply it into their registers, and release
//               the stage before.
//
// Operands, and the epilogue:
//   across, 16 bits   A = filter, along its rows (data gradient: across, wgmma transposes); B = pixels, across rows.
//                     Sums have written planes as rows: 64 planes x a chunk are staged in shared memory, and the copy
//                     engine takes them to C, up to the end of the plane; or threads do, by pieces.
//   across, TF32      A = pixels, from registers; B = filter, along its rows (data gradient: of a transposed copy). A
//                     thread has 4 neighbouring pixels of a plane and stores them itself, a warp 128 bytes of 4 planes.
//   along             both along their rows. The end of a plane is padded with zeros in both. Sums are split over
//   blocks
//                     and joined by a second kernel.
//
// Bytes: each tensor once from memory; an image tensor that several tiles read comes from the L2 for all but the first,
// because those tiles are neighbours in time.
//
// Limits: no groups; planes are contiguous, and begin and end at multiples of 8 bytes (TF32: 16). TMA wants
// 16: of its inner coordinates, and it stores whole vectors beyond the end of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/conv1x1/conv1x1_nchw_sm90_epilogue.cuh"
#include "kernels/conv/conv1x1/conv1x1_nchw_sm90_multiply.cuh"
#include "kernels/conv/conv1x1/conv1x1_nchw_sm90_producer.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/tile/instances.hpp"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/shared_memory.hpp"

namespace gpudnn::kernels::sm90::planes {

template <class I>
__device__ __forceinline__ void consume(const Params& p, Shared<I>& shared, std::uint32_t rank, int consumer) {
  tile::PipelineState<I::kStages> turn;
  const std::uint32_t works = p.works.divisor * p.splits;
  std::uint32_t sequence = 0;
  int area = 0;
  for (std::uint32_t index = blockIdx.x / I::kCluster; index < works; index += gridDim.x / I::kCluster, ++sequence) {
    const Work work = work_item<I>(p, index, rank);
    if (I::kPingPong && sequence % I::kConsumers != static_cast<std::uint32_t>(consumer)) {
      turn.skip(work.k_end - work.k_begin);
      continue;
    }
    float sum[I::kRowBlocks][I::kBN / 2];
    if constexpr (I::kKind == Kind::across_tf32) {
      multiply_tf32<I>(shared, work, sequence, consumer, sum, &turn);
      store_across_tf32<I>(p, work, consumer, sum);
    } else {
      multiply<I>(shared, work, sequence, consumer, sum, &turn);
      if constexpr (I::kKind == Kind::along) {
        store_partials<I>(p, work, consumer, sum);
      } else {
        store_across<I>(p, shared, work, consumer, sum, &area);
      }
    }
  }
  // TMA reads the staging area until then.
  if (I::kKind == Kind::across && threadIdx.x % 128 == 0) ptx::bulk_wait_group_read<0>();
}

// As in the implicit GEMM, the start is a chain of accesses to memory that nobody has touched yet, whose links are
// forged side by side: warp 0 makes the barriers, the others fetch parameters. All meet at one barrier instruction.
template <class I>
__device__ __forceinline__ void make_barriers(const Params& p, Shared<I>& shared) {
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) {
    if (!I::kByThreads) ptx::prefetch_tensormap(&p.in);
    if (!I::kByThreads || I::kKind != Kind::along) {
      ptx::prefetch_tensormap(I::kKind == Kind::along ? &p.out : &p.filter);
    }
  }
  if (lane < I::kStages) {
    // TMA's bytes; by threads, its bytes of the filter and a word of each warp.
    constexpr int kWarps = 4;
    ptx::mbarrier_init(&shared.full[lane], I::kByThreads ? kWarps + (I::kKind == Kind::along ? 0 : 1) : 1);
    ptx::mbarrier_init(&shared.empty[lane], I::kTileWarps * I::kCluster);
    if (lane < I::kConsumers) ptx::mbarrier_init(&shared.fetched[lane], 4);
    ptx::fence_mbarrier_init();
  }
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) conv1x1_nchw_sm90(const __grid_constant__ Params p) {
  static_assert(I::kStages <= 32, "one warp makes the barriers");
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::uint32_t rank = I::kCluster > 1 ? ptx::cluster_ctarank() : 0;
  if (warp == 0) make_barriers<I>(p, shared);
  start_together<I>();
  if (warp < 4) {
    ptx::setmaxnreg_dec<I::kRegistersOfProducer>();
    if constexpr (I::kByThreads) {
      produce_by_threads<I>(p, shared);
    } else {
      if (warp == 0) produce<I>(p, shared, rank);
    }
  } else {
    if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    consume<I>(p, shared, rank, warp / 4 - 1);
  }
  // No block leaves while another may still signal its barriers or write its shared memory.
  if constexpr (I::kCluster > 1) {
    __syncwarp();
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
}

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  tile::allow_shared_memory<&conv1x1_nchw_sm90<I>>(kBytes);
  tile::launch_kernel(&conv1x1_nchw_sm90<I>, {blocks, I::kThreads, kBytes, I::kCluster}, stream, params);
  if (I::kKind == Kind::along) launch_reduction<typename I::T>(I::kTile, params, stream);
}

// Null for a shape that the type and direction do not have.
template <class T, Direction kDirection, int kShape>
constexpr LaunchPlanes launch_of_instance() {
  if constexpr (!exists<T>(kDirection, kShape)) {
    return nullptr;
  } else {
    return &launch_instance<Instance<T, kDirection, kShape>>;
  }
}

template <class T, Direction kDirection>
LaunchPlanes launch_of(int shape) {
  return tile::entry_at<kTileShapeCount>(
      shape, [](auto instance) -> LaunchPlanes { return launch_of_instance<T, kDirection, instance()>(); });
}

}  // namespace gpudnn::kernels::sm90::planes
