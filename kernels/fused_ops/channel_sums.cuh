// The sum and the sum of squares of each channel, where channels are contiguous (NHWC): y is read once, in one launch.
//
// A block sums a tile of kSumsWidth channels over its share of the places: `lanes` threads side by side take a pack of
// channels each, the rows of threads above them further places, kSumsLoads of them in flight; tile/channel_reduce.cuh
// joins a block's rows. The blocks' sums go to the workspace, and the last block to arrive adds them up in order. Who
// that is does not matter to the result; a counter beside a slot of tile/mailboxes.cuh tells. Bytes: y once; the
// partial sums are 64 channels times 16 bytes a block at most.
//
// Summed in the compute type: any order of n terms is within the bounds of docs/numerics.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/fused_ops/fused_ops.hpp"
#include "kernels/tile/channel_reduce.cuh"
#include "kernels/tile/mailboxes.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

constexpr int kSumsThreads = 1024;
constexpr int kSumsLoads = 8;

// Blocks of the grid that holds the slot which have left their sums.
static __device__ unsigned channel_sums_arrived[tile::kMailboxes];

// Whether this block is the last of `blocks`. By one thread, after all of its block have written and met; if so, the
// block meets again and may then read what the others left.
__device__ __forceinline__ bool channel_sums_arrive(unsigned slot, unsigned blocks) {
  __threadfence();
  const bool last = atomicAdd(&channel_sums_arrived[slot], 1u) == blocks - 1;
  __threadfence();
  return last;
}

template <class T>
struct ChannelSumsArgs {
  using C = tile::Compute<T>;
  const T* y;
  C* sum;  // null: not wanted; likewise the squares
  C* squares;
  std::int64_t sum_stride;
  std::int64_t squares_stride;
  tile::Totals<C>* parts;  // [share][channel]
  std::uint32_t channels;
  std::uint32_t shares;
  std::uint32_t places;
  int lane_bits;
  cuda::MailboxKey key;
  tile::LoopNest<1> nest;

  __device__ __forceinline__ void store(std::int64_t channel, const tile::Totals<C>& total) const {
    if (sum != nullptr) sum[channel * sum_stride] = total.first;
    if (squares != nullptr) squares[channel * squares_stride] = total.second;
  }
};

template <class T, int N>
__global__ void __launch_bounds__(kSumsThreads, 1) channel_sums(const __grid_constant__ ChannelSumsArgs<T> args) {
  using C = tile::Compute<T>;
  using Totals = tile::Totals<C>;
  __shared__ Totals scratch[kSumsThreads / 32 * kSumsWidth];
  __shared__ Totals of_block[kSumsWidth];
  __shared__ unsigned slot;
  __shared__ bool last;
  if (args.shares > 1 && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) tile::mailbox_take(args.key);
  const int lanes = 1 << args.lane_bits;
  const std::uint32_t lane = threadIdx.x & (static_cast<unsigned>(lanes) - 1u);
  const std::uint32_t rows = kSumsThreads >> args.lane_bits;
  const std::uint32_t first_channel = blockIdx.x * static_cast<unsigned>(lanes * N);
  Totals sums[N];
  if (first_channel + lane * N < args.channels) {
    const T* const y = args.y + first_channel + lane * N;
    const std::uint32_t step = args.shares * rows;
#pragma unroll 1
    for (std::uint32_t place = blockIdx.y * rows + (threadIdx.x >> args.lane_bits); place < args.places;
         place += step * kSumsLoads) {
      tile::Pack<T, N> packs[kSumsLoads] = {};  // one that is not loaded adds zeros
#pragma unroll
      for (int u = 0; u < kSumsLoads; ++u) {
        const std::uint32_t at = place + u * step;
        if (at < args.places) packs[u] = tile::load_pack<T, N>(y + args.nest.offset_in(0, at));
      }
#pragma unroll
      for (int u = 0; u < kSumsLoads; ++u) {
        C values[N];
        tile::widen_pack<C>(packs[u], values);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          sums[i].first += values[i];
          sums[i].second += values[i] * values[i];
        }
      }
    }
  }
  tile::columns_reduce(sums, lanes, scratch, of_block);
  const auto channel = threadIdx.x;
  const bool mine = channel < static_cast<unsigned>(lanes * N) && first_channel + channel < args.channels;
  if (args.shares == 1) {
    if (mine) args.store(first_channel + channel, of_block[channel]);
    return;
  }
  if (mine) args.parts[std::int64_t{blockIdx.y} * args.channels + first_channel + channel] = of_block[channel];
  if (threadIdx.x == 0) slot = tile::mailbox_find(args.key, tile::mailbox_glance(args.key));
  __syncthreads();
  if (threadIdx.x == 0) last = channel_sums_arrive(slot, gridDim.x * gridDim.y);
  __syncthreads();
  if (!last) return;
  // A row of threads for each run of shares, so that few trips to the L2 follow one another.
  std::uint32_t width = 32;
  while (width < args.channels && width < kSumsThreads) width *= 2;
  const std::uint32_t runs = kSumsThreads / width;
#pragma unroll 1
  for (std::uint32_t base = 0; base < args.channels; base += width) {
    const std::uint32_t k = base + (threadIdx.x & (width - 1));
    Totals total;
    if (k < args.channels) {
#pragma unroll 8
      for (std::uint32_t i = threadIdx.x / width; i < args.shares; i += runs) {
        const Totals* const part = args.parts + (std::int64_t{i} * args.channels + k);
        total.merge({__ldcg(&part->first), __ldcg(&part->second)});
      }
    }
    scratch[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x < width && k < args.channels) {
      for (std::uint32_t run = 1; run < runs; ++run) total.merge(scratch[run * width + threadIdx.x]);
      args.store(k, total);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    channel_sums_arrived[slot] = 0;
    tile::mailbox_leave(slot);
  }
}

}  // namespace gpudnn::kernels
