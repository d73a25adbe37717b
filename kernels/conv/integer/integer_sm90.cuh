// Implicit-GEMM convolution of 8-bit integers for Hopper: warp-specialised, persistent, on wgmma and TMA.
//
//   sum[m, n] = sum over k of A[m, k] * B[n, k],   m a pixel of y, n a filter of the group, k a (tap, channel)
//
// Data flow of a block, one per multiprocessor:
//   producer    warp 0, one thread of it. For each tile and k tile it waits for an empty stage and starts two copies:
//   bm
//               pixels under one tap, k_bytes channels of each, by an im2col box (or a box of a matrix for 1x1); and bn
//               filters' channels of that tap. Both land in rows of k_bytes, swizzled as wgmma reads them.
//   consumers   two or three warpgroups. One waits for a full stage, multiplies it into its registers and releases the
//   stage before.
//               Ping-pong: they take tiles in turn, and the others meanwhile finish theirs; else they share each
//               tile's rows. To finish: scale, addend, bias, activation, clamp, and bytes packed so that four threads
//               of a row write 32 bytes next to each other.
//
// Channels beyond the tensor's are zero in the filter's box, so that what the pixels' box holds there does not count.
// Ping-pong: a consumer begins its tile when the one before has seen its last stage filled: a wait for a phase of a
// barrier cannot tell it from the phase before the last.
//
// Limits: channels and filters of a group in multiples of 16; channels innermost; signed x; the offsets that TMA has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/integer/integer_sm90_store.cuh"
#include "kernels/ptx/ld_shared_cluster.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/tile/stage_ring.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::integer {

template <class S>
__device__ __forceinline__ void load_stage(const Sm90Params& params, Sm90Shared<S>& shared, int stage,
                                           std::int32_t channel, std::int32_t first_channel, std::uint32_t pixel,
                                           const std::int32_t (&corner)[4], const std::uint32_t (&tap)[3],
                                           std::int32_t first_filter) {
  const Params& p = params.p;
  std::uint64_t* const full = &shared.full[stage];
  ptx::mbarrier_arrive_expect_tx(full, S::kABytes + S::kBBytes);
  std::uint16_t offset[3];
  std::int32_t number = params.first_tap;
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
    offset[axis] = static_cast<std::uint16_t>(tap[axis] * static_cast<std::uint32_t>(p.dilation[axis]));
    number += static_cast<std::int32_t>(tap[axis]) * params.tap_step[axis];
  }
  if (params.x_is_matrix) {
    ptx::tma_tile_3d(shared.a[stage], &params.x_map, full, first_channel + channel, 0,
                     static_cast<std::int32_t>(pixel));
  } else if (params.three_dimensional) {
    ptx::tma_im2col_5d(shared.a[stage], &params.x_map, full, first_channel + channel, corner[0], corner[1], corner[2],
                       corner[3], offset[0], offset[1], offset[2]);
  } else {
    ptx::tma_im2col_4d(shared.a[stage], &params.x_map, full, first_channel + channel, corner[0], corner[1], corner[3],
                       offset[0], offset[1]);
  }
  ptx::tma_tile_3d(shared.b[stage], &params.w_map, full, channel, number, first_filter);
}

// Taps are fastest, then chunks of channels: neighbouring taps share pixels, which the L2 still has.
template <class S>
__device__ __forceinline__ void produce(const Sm90Params& params, Sm90Shared<S>& shared) {
  const Params& p = params.p;
  tile::PipelineState<S::kStages> turn;
  for (std::uint32_t index = first_tile<S>(params); index < params.tiles; index += tile_step<S>(params)) {
    const Sm90Work work = sm90_work<S>(params, index);
    const std::uint32_t first_pixel = work.m * S::kBM;
    const Pixel pixel = pixel_of(p, first_pixel);
    const std::int32_t corner[4] = {pixel.at[0] * p.stride[0] - p.pad[0], pixel.at[1] * p.stride[1] - p.pad[1],
                                    pixel.at[2] * p.stride[2] - p.pad[2], static_cast<std::int32_t>(pixel.image)};
    const auto first_channel = static_cast<std::int32_t>(work.group * p.channels);
    const auto first_filter = static_cast<std::int32_t>(work.group * p.filters + work.n * S::kBN);
    std::uint32_t tap[3] = {0, 0, 0};
    std::int32_t channel = 0;
    if (S::kClusterSplit) {
      tap[0] = work.k_begin % params.taps[0];
      const std::uint32_t rest = work.k_begin / params.taps[0];
      tap[1] = rest % params.taps[1];
      tap[2] = rest / params.taps[1] % params.taps[2];
      channel = static_cast<std::int32_t>(rest / params.taps[1] / params.taps[2]) * S::kKBytes;
    }
    for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
      tile::wait(&shared.empty[turn.stage], turn.parity ^ 1);
      load_stage<S>(params, shared, turn.stage, channel, first_channel, first_pixel, corner, tap, first_filter);
      turn.next();
      if (++tap[0] == params.taps[0]) {
        tap[0] = 0;
        if (++tap[1] == params.taps[1]) {
          tap[1] = 0;
          if (++tap[2] == params.taps[2]) {
            tap[2] = 0;
            channel += S::kKBytes;
          }
        }
      }
    }
  }
}

template <class S>
__device__ __forceinline__ void multiply_tile(const Sm90Work& work, Sm90Shared<S>& shared, std::uint32_t sequence,
                                              int consumer, tile::PipelineState<S::kStages>* turn, Sm90Sums<S>& sum) {
#pragma unroll
  for (int block = 0; block < S::kRowBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < S::kBN / 2; ++i) sum[block][i] = 0;
  }
  const int a_offset = S::kPingPong ? 0 : consumer * S::kRowBlocks * 64 * S::kKBytes;
  if (S::kPingPong && sequence > 0)
    tile::wait(&shared.fetched[(sequence - 1) % S::kConsumers], (sequence - 1) / S::kConsumers & 1u);
  int previous = -1;
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    tile::wait(&shared.full[turn->stage], turn->parity);
    if (S::kPingPong && k + 1 == work.k_end && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.fetched[consumer]);
    ptx::wgmma_fence();
    const std::uint64_t a = tile::operand_descriptor<S::kKBytes>(shared.a[turn->stage] + a_offset, 16);
    const std::uint64_t b = tile::operand_descriptor<S::kKBytes>(shared.b[turn->stage], 16);
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) {
#pragma unroll
      for (int block = 0; block < S::kRowBlocks; ++block) {
        ptx::wgmma_ss<std::int8_t, std::int8_t, S::kBN>(
            sum[block], a + static_cast<std::uint64_t>((step * 32 + block * 64 * S::kKBytes) >> 4),
            b + static_cast<std::uint64_t>(step * 32 >> 4));
      }
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (previous >= 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.empty[previous]);
    previous = turn->stage;
    turn->next();
  }
  ptx::wgmma_wait_group<0>();
  if (previous >= 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.empty[previous]);
}

// The blocks of a cluster leave their sums where their stages were; the first one adds them to its own.
template <class S>
__device__ __forceinline__ void join_sums(const Sm90Params& params, Sm90Shared<S>& shared, Sm90Sums<S>& sum) {
  static_assert(S::kRowBlocks == 1 && S::kConsumers == 1, "a warpgroup has the tile");
  const std::uint32_t thread = threadIdx.x % 128;
  auto* const kept = reinterpret_cast<int4*>(shared.a[0]);
  const bool is_first = ptx::cluster_ctarank() == 0;
  ptx::barrier_sync(kSm90SumsBarrier, 128);  // all warps' products have read the stages
  if (!is_first) {
#pragma unroll
    for (int i = 0; i < S::kBN / 8; ++i) {
      kept[i * 128 + thread] = make_int4(sum[0][4 * i], sum[0][4 * i + 1], sum[0][4 * i + 2], sum[0][4 * i + 3]);
    }
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  if (!is_first) return;
  for (std::uint32_t block = 1; block < params.splits; ++block) {
    const std::uint32_t from = ptx::mapa(ptx::shared_address(kept), block);
#pragma unroll
    for (int i = 0; i < S::kBN / 8; ++i) {
      const float4 other = ptx::ld_shared_cluster(from + (static_cast<std::uint32_t>(i) * 128 + thread) * 16);
      sum[0][4 * i] += __float_as_int(other.x);
      sum[0][4 * i + 1] += __float_as_int(other.y);
      sum[0][4 * i + 2] += __float_as_int(other.z);
      sum[0][4 * i + 3] += __float_as_int(other.w);
    }
  }
}

template <class S>
__device__ __forceinline__ void consume(const Sm90Params& params, Sm90Shared<S>& shared, int consumer) {
  const Epilogue& e = params.p.epilogue;
  const bool plain = !e.has_scale && !e.adds && (!e.has_relu || e.slope == 0.0f);
  tile::PipelineState<S::kStages> turn;
  std::uint32_t sequence = 0;
  for (std::uint32_t index = first_tile<S>(params); index < params.tiles; index += tile_step<S>(params), ++sequence) {
    const Sm90Work work = sm90_work<S>(params, index);
    if (S::kPingPong && sequence % S::kConsumers != static_cast<std::uint32_t>(consumer)) {
      turn.skip(work.k_end - work.k_begin);
      continue;
    }
    Sm90Sums<S> sum;
    multiply_tile<S>(work, shared, sequence, consumer, &turn, sum);
    if constexpr (S::kClusterSplit) {
      join_sums<S>(params, shared, sum);
      if (ptx::cluster_ctarank() != 0) continue;
    }
    if (plain) {
      store_sums<S, true>(params, work, consumer, sum);
    } else {
      store_sums<S, false>(params, work, consumer, sum);
    }
  }
}

template <int kTile>
__global__ void __launch_bounds__(Sm90Shape<kTile>::kThreads, 1)
    integer_sm90(const __grid_constant__ Sm90Params params) {
  using S = Sm90Shape<kTile>;
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Sm90Shared<S>*>(raw);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&params.x_map);
    ptx::prefetch_tensormap(&params.w_map);
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(&shared.full[i], 1);
      ptx::mbarrier_init(&shared.empty[i], S::kReleases);
    }
    for (int i = 0; i < S::kConsumers; ++i) ptx::mbarrier_init(&shared.fetched[i], 4);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp < 4) {
    ptx::setmaxnreg_dec<kSm90ProducerRegisters>();
    if (threadIdx.x == 0) produce<S>(params, shared);
    if constexpr (S::kClusterSplit) {
      __syncwarp();
      ptx::cluster_arrive();
      ptx::cluster_wait();
    }
  } else {
    if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<S::kConsumerRegisters>();
    consume<S>(params, shared, warp / 4 - 1);
  }
  // No block leaves while another may still read its sums.
  if constexpr (S::kClusterSplit) {
    __syncwarp();
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
}

}  // namespace gpudnn::kernels::integer
