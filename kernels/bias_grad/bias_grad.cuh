// db[k] = alpha * sum over n and the pixels of dy[n, k, ...] + beta * db[k], read once, in a fixed order, with no
// workspace.
//
//   bias_grad_rows      a block or a cluster of blocks for each channel; threads run along the summed elements, packed
//                       where they are contiguous (NCHW), wherever the lines begin; takes any strides
//   bias_grad_columns   blocks for each tile of neighbouring channels (NHWC), 128 bytes and more wide; a thread sums a
//                       pack of channels over every `rows`-th pixel
//
// The blocks of a cluster add up through distributed shared memory. Blocks of a tile are too many for a cluster: their
// sums, 33 KB at most, meet in a slot of tile/mailboxes.cuh, where the grid's last block adds them up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/bias_grad/bias_grad.hpp"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/line_steps.cuh"
#include "kernels/tile/mailboxes.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {

constexpr int kRowsThreads = 512;
constexpr int kColumnsThreads = 1024;
constexpr int kBiasLoads = 4;      // in flight for each thread
constexpr int kColumnsWidth = 64;  // channels of a tile

// Of a sum of 256 channels over 33 blocks.
constexpr int kBiasSlotBytes = 33 * 1024;
static __device__ tile::Mailboxes<kBiasSlotBytes> bias_grad_slots;

template <class T>
struct BiasGradArgs {
  using C = tile::Compute<T>;
  const T* dy;
  T* db;
  C alpha;
  C beta;
  std::uint32_t channels;
  std::int64_t dy_channel_step;
  std::int64_t db_channel_step;
  tile::LineNest sum;  // rows: in packs; columns: in pixels
  int cluster;         // rows: blocks of a channel
  int lanes;           // columns: packs of a tile
  int sharers;         // columns: blocks of a tile
  tile::MailboxKey key;

  __device__ __forceinline__ void store(std::int64_t channel, C total) const {
    T* const target = db + channel * db_channel_step;
    C value = alpha * total;
    if (beta != C(0)) value += beta * tile::widen<C>(*target);
    *target = tile::narrow<T>(value);
  }
};

// The thread's packs of the steps from `first` on, `stride` apart, kBiasLoads at a time.
template <class T, int N, int kStepWidth, bool kWholeRounds = false, class Add>
__device__ __forceinline__ void for_each_pack(const tile::LineNest& nest, const T* dy, std::uint32_t first,
                                              std::uint32_t stride, Add&& add) {
  const auto end = static_cast<std::uint32_t>(nest.count);
  if constexpr (kWholeRounds) {
    // As long as all packs of a round are there, little but loads and sums stands between two rounds.
    const bool plain = !nest.ragged && !nest.nested;
    const std::uint32_t rounds = plain && first < end ? ((end - 1 - first) / stride + 1) / kBiasLoads : 0;
#pragma unroll 1
    for (std::uint32_t round = 0; round < rounds; ++round, first += stride * kBiasLoads) {
      tile::Pack<T, N> packs[kBiasLoads];
#pragma unroll
      for (int u = 0; u < kBiasLoads; ++u) {
        std::uint32_t at = first + u * stride;
        const T* line = dy;
        if (nest.lines > 1) line += nest.steps.divmod(at, &at) * nest.line_step;
        packs[u] = tile::load_pack<T, N>(line + at * nest.step);
      }
#pragma unroll
      for (int u = 0; u < kBiasLoads; ++u) {
        tile::Compute<T> values[N];
        tile::widen_words<tile::Compute<T>>(packs[u], values);
        add(values);
      }
    }
  }
#pragma unroll 1
  for (; first < end; first += stride * kBiasLoads) {
    const auto steps = tile::line_steps<T, kStepWidth, kBiasLoads>(nest, dy, first, stride, end);
    tile::Pack<T, N> packs[kBiasLoads] = {};
#pragma unroll
    for (int u = 0; u < kBiasLoads; ++u) {
      if ((steps.inside >> u & 1u) != 0) packs[u] = tile::load_pack<T, N>(dy + steps.offset[u]);
    }
#pragma unroll
    for (int u = 0; u < kBiasLoads; ++u) {  // a pack that was not loaded adds zeros
      tile::Compute<T> values[N];
      tile::widen_words<tile::Compute<T>>(packs[u], values);
      add(values);
    }
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kRowsThreads, 2) bias_grad_rows(const __grid_constant__ BiasGradArgs<T> args) {
  using C = tile::Compute<T>;
  __shared__ C scratch[32];
  __shared__ C partial;
  const tile::ClusterPlace place = tile::cluster_place(args.cluster);
  if (place.rank >= place.blocks) return;
  const std::int64_t channel = blockIdx.x / static_cast<unsigned>(args.cluster);
  const T* const dy = args.dy + channel * args.dy_channel_step;
  const std::uint32_t first = static_cast<std::uint32_t>(place.rank) * kRowsThreads + threadIdx.x;
  const std::uint32_t stride = static_cast<std::uint32_t>(place.blocks) * kRowsThreads;
  C sums[N] = {};
  for_each_pack<T, N, N, sizeof(T) == 2 && (N > 1)>(args.sum, dy, first, stride, [&](const C(&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += values[i];
  });
  C sum = sums[0];
#pragma unroll
  for (int i = 1; i < N; ++i) sum += sums[i];
  if constexpr (N > 1) {
    if (args.sum.ragged) {
      const std::uint32_t edges = tile::line_edges<N>(args.sum);
#pragma unroll 4
      for (std::uint32_t i = first; i < edges; i += stride) {
        const tile::LineEdge edge = tile::line_edge<T, N>(args.sum, dy, i);
        if (edge.inside) sum += tile::widen<C>(dy[edge.offset]);
      }
    }
  }
  sum = tile::block_reduce(sum, C(0), tile::Sum{}, scratch);
  if (place.blocks == 1) {
    if (threadIdx.x == 0) args.store(channel, sum);
    return;
  }
  if (threadIdx.x == 0) partial = sum;
  if (threadIdx.x >= 32) {  // the first warp speaks for the block
    tile::cluster_sync(place.blocks);
    tile::cluster_sync(place.blocks);
    return;
  }
  tile::cluster_sync(place.blocks);
  if (place.rank == 0) {
    const int lane = static_cast<int>(threadIdx.x);
    C total = lane < place.blocks ? *tile::cluster_shared(&partial, lane, place.blocks) : C(0);
    total = tile::warp_reduce(total, tile::Sum{});
    if (lane == 0) args.store(channel, total);
  }
  tile::cluster_sync(place.blocks);  // no block may leave while its partial sum is being read
}

// Threads: `lanes` packs of channels (a power of two) by kColumnsThreads / lanes rows. Blocks next to each other read
// the same pixels in neighbouring tiles.
template <class T, int N>
__global__ void __launch_bounds__(kColumnsThreads, 1) bias_grad_columns(const __grid_constant__ BiasGradArgs<T> args) {
  using C = tile::Compute<T>;
  constexpr int kWarps = kColumnsThreads / 32;
  constexpr int kPitch = kColumnsWidth + 1;  // the warps' sums of a channel lie in different banks
  __shared__ C scratch[kWarps * kPitch];
  if (args.sharers > 1 && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) tile::mailbox_take(args.key);
  const int lanes = args.lanes;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const std::uint32_t rows = kColumnsThreads / static_cast<unsigned>(lanes);
  const std::int64_t first_channel = static_cast<std::int64_t>(blockIdx.x) * lanes * N;
  const unsigned share = blockIdx.y;
  C sums[N] = {};
  if (first_channel + lane * N < args.channels) {
    for_each_pack<T, N, 1>(args.sum, args.dy + first_channel + lane * N,
                           share * rows + threadIdx.x / static_cast<unsigned>(lanes), args.sharers * rows,
                           [&](const C(&values)[N]) {
#pragma unroll
                             for (int i = 0; i < N; ++i) sums[i] += values[i];
                           });
  }
  const tile::MailboxKey seen = args.sharers > 1 ? tile::mailbox_glance(args.key) : 0;
  // Rows of one warp meet in shuffles, the warps in shared memory: 16 or 32 neighbouring threads for each channel.
#pragma unroll 1
  for (int step = lanes; step < 32; step *= 2) {
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], step);
  }
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread % 32 < lanes) {
#pragma unroll
    for (int i = 0; i < N; ++i) scratch[thread / 32 * kPitch + lane * N + i] = sums[i];
  }
  __syncthreads();
  const int parts = lanes * N > 32 ? 16 : 32;
  const int in_tile = thread / parts;  // the thread's channel
  const bool exists = in_tile < lanes * N && first_channel + in_tile < args.channels;
  C of_block = C(0);
  if (in_tile < lanes * N) {
    of_block = scratch[thread % parts * kPitch + in_tile];
    if (parts < 32) of_block += scratch[(thread % parts + 16) * kPitch + in_tile];
  }
#pragma unroll 1
  for (int step = parts / 2; step > 0; step /= 2) of_block += __shfl_xor_sync(0xffffffffu, of_block, step);
  const bool speaks = exists && thread % parts == 0;
  if (args.sharers == 1) {
    if (speaks) args.store(first_channel + in_tile, of_block);
    return;
  }
  const bool collects = tile::grid_block_is_last();
  if (!speaks && !collects) return;
  const unsigned slot = tile::mailbox_find(args.key, seen);
  void* const posts = bias_grad_slots.words[slot];  // [sharer][channel]
  if (speaks) tile::grid_post(posts, share * args.channels + first_channel + in_tile, of_block);
  if (!collects) return;
  // A row of threads for each run of sharers, so that few trips to the L2 follow one another.
  constexpr int kAtOnce = sizeof(C) == 8 ? 4 : 9;
  std::uint32_t width = 32;
  while (width < args.channels && width < kColumnsThreads) width *= 2;
  const std::uint32_t runs = kColumnsThreads / width;
#pragma unroll 1
  for (std::uint32_t base = 0; base < args.channels; base += width) {
    const std::uint32_t k = base + (threadIdx.x & (width - 1));
    C total = C(0);
    if (k < args.channels) {
#pragma unroll 1
      for (std::uint32_t i = threadIdx.x / width; i < static_cast<std::uint32_t>(args.sharers); i += runs * kAtOnce) {
        C values[kAtOnce];
        tile::grid_collect(posts, i * args.channels + k, runs * args.channels,
                           static_cast<std::uint32_t>(args.sharers) * args.channels, values);
#pragma unroll
        for (const C value : values) total += value;
      }
    }
    __syncthreads();
    scratch[threadIdx.x] = total;
    __syncthreads();
    // Here all have collected the last channels' sums.
    if (base + width >= args.channels && thread == kColumnsThreads - 1) tile::mailbox_leave(slot);
    if (threadIdx.x < width && k < args.channels) {
      for (std::uint32_t run = 1; run < runs; ++run) total += scratch[run * width + threadIdx.x];
      args.store(k, total);
    }
  }
}

}  // namespace gpudnn::kernels
