// db[k] = alpha * sum over n and the pixels of dy[n, k, ...] + beta * db[k], read once, in a fixed order, with no
// scratch memory: the blocks that share a channel form a cluster, and its first block adds up the partial sums of the
// others through distributed shared memory.
//
//   bias_grad_rows      a cluster for each channel; its threads run along the summed elements, packed where they are
//                       contiguous (NCHW); takes any strides
//   bias_grad_columns   a cluster for each tile of neighbouring channels (NHWC); a thread sums a pack of channels over
//                       every `rows`-th pixel, and tile/channel_reduce.cuh joins what they have
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/bias_grad/bias_grad.hpp"
#include "kernels/tile/channel_reduce.cuh"
#include "kernels/tile/dispatch.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {

constexpr int kRowsThreads = 512;
constexpr int kColumnsThreads = 1024;
constexpr int kBiasLoads = 4;  // in flight for each thread

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
  tile::LoopNest<1> sum;  // rows: in packs; columns: in pixels
  int cluster;

  __device__ __forceinline__ void store(std::int64_t channel, C total) const {
    T* const target = db + channel * db_channel_step;
    C value = alpha * total;
    if (beta != C(0)) value += beta * tile::widen<C>(*target);
    *target = tile::narrow<T>(value);
  }
};

template <class T, int N>
__global__ void __launch_bounds__(kRowsThreads) bias_grad_rows(BiasGradArgs<T> args) {
  using C = tile::Compute<T>;
  __shared__ C scratch[32];
  __shared__ C partial;
  const tile::ClusterPlace place = tile::cluster_place(args.cluster);
  if (place.rank >= place.blocks) return;
  const std::int64_t channel = blockIdx.x / static_cast<unsigned>(args.cluster);
  const T* const dy = args.dy + channel * args.dy_channel_step;
  const std::uint32_t step = static_cast<std::uint32_t>(place.blocks) * kRowsThreads;
  C sums[N] = {};
  // At most 2^31 - 2^20 packs, so an index that ran past the end by a round still fits 32 bits.
  for (std::uint32_t first = place.rank * kRowsThreads + threadIdx.x; first < args.sum.count;
       first += step * kBiasLoads) {
    tile::Pack<T, N> packs[kBiasLoads];
    std::uint32_t index[kBiasLoads];
    std::int64_t offset[kBiasLoads][1];
#pragma unroll
    for (int u = 0; u < kBiasLoads; ++u) index[u] = first + u * step;
    args.sum.template offsets_of<kBiasLoads>(index, offset);
#pragma unroll
    for (int u = 0; u < kBiasLoads; ++u) {
      if (first + u * step < args.sum.count) packs[u] = tile::load_pack<T, N>(dy + offset[u][0]);
    }
#pragma unroll
    for (int u = 0; u < kBiasLoads; ++u) {
      if (first + u * step < args.sum.count) {
        C values[N];
        tile::widen_pack<C>(packs[u], values);
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += values[i];
      }
    }
  }
  C sum = sums[0];
#pragma unroll
  for (int i = 1; i < N; ++i) sum += sums[i];
  sum = tile::block_reduce(sum, C(0), tile::Sum{}, scratch);
  if (threadIdx.x == 0) partial = sum;
  tile::cluster_sync(place.blocks);
  if (place.rank == 0 && threadIdx.x == 0) {
    C total = C(0);
    for (int rank = 0; rank < place.blocks; ++rank) total += *tile::cluster_shared(&partial, rank, place.blocks);
    args.store(channel, total);
  }
  tile::cluster_sync(place.blocks);  // no block may leave while its partial sum is being read
}

// Threads: `lanes` packs of channels (a power of two) by kColumnsThreads / lanes rows.
template <class T, int N>
__global__ void __launch_bounds__(kColumnsThreads) bias_grad_columns(BiasGradArgs<T> args, int lanes) {
  using C = tile::Compute<T>;
  constexpr int kMostLanes = N > 1 ? 8 : 32;
  __shared__ tile::Total<C> scratch[kColumnsThreads / 32 * kMostLanes * N];
  __shared__ tile::Total<C> of_block[kMostLanes * N];
  const tile::ClusterPlace place = tile::cluster_place(args.cluster);
  if (place.rank >= place.blocks) return;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int row = static_cast<int>(threadIdx.x) / lanes;
  const int rows = kColumnsThreads / lanes;
  const std::int64_t first_channel =
      static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(args.cluster)) * lanes * N;
  const bool inside = first_channel + lane * N < args.channels;
  const T* const dy = args.dy + (inside ? first_channel + lane * N : 0);
  const auto step = static_cast<std::uint32_t>(place.blocks * rows);
  tile::Total<C> sums[N];
  for (std::uint32_t first = place.rank * rows + row; inside && first < args.sum.count; first += step * kBiasLoads) {
    tile::Pack<T, N> packs[kBiasLoads];
    std::uint32_t index[kBiasLoads];
    std::int64_t offset[kBiasLoads][1];
#pragma unroll
    for (int u = 0; u < kBiasLoads; ++u) index[u] = first + u * step;
    args.sum.template offsets_of<kBiasLoads>(index, offset);
#pragma unroll
    for (int u = 0; u < kBiasLoads; ++u) {
      if (first + u * step < args.sum.count) packs[u] = tile::load_pack<T, N>(dy + offset[u][0]);
    }
#pragma unroll
    for (int u = 0; u < kBiasLoads; ++u) {
      if (first + u * step < args.sum.count) {
        C values[N];
        tile::widen_pack<C>(packs[u], values);
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i].sum += values[i];
      }
    }
  }
  tile::columns_reduce(sums, lanes, scratch, of_block);
  if (place.blocks > 1) tile::cluster_sync(place.blocks);
  const int channel = static_cast<int>(threadIdx.x);
  if (place.rank == 0 && channel < lanes * N && first_channel + channel < args.channels) {
    args.store(first_channel + channel, tile::column_over_cluster(of_block, channel, place.blocks).sum);
  }
  if (place.blocks > 1) tile::cluster_sync(place.blocks);  // no block may leave while its sums are being read
}

}  // namespace gpudnn::kernels
