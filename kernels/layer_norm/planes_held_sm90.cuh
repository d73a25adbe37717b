// Group and instance normalization, backward, where a set is a run of planes (the mathematics: planes_backward.cuh),
// with x and dy read once: a cluster has a set, and each of its blocks holds a part of it in shared memory.
//
// A set is cut into pieces, whole planes or equal parts of them, and a block has as many of these as another one, one
// after the other. It asks for all of them by two bulk copies. Then each warp takes pieces in turn and leaves both sums
// of each, which are also the piece's share of dscale and dbias; those of a set, with the channels' scales, are told to
// all blocks of the cluster by asynchronous stores that a barrier counts. At last the pieces are read again, and dx is
// written. dx may be x or dy. Several blocks of different sets share a multiprocessor, so that one loads while another
// adds or writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/planes_backward.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

constexpr int kLnHeldPieces = 256;  // of a block, at most

struct LayerNormHeldShape {
  std::int32_t cluster;
  std::int32_t pieces;  // of a block, but for the last ones
};

struct LayerNormHeldShared {
  std::uint64_t full;
  std::uint64_t told;
  RowSums blocks[kLnMaxCluster];
  RowSums pieces[kLnHeldPieces];
  float scales[kLnHeldPieces];  // of the pieces' channels
};
constexpr int kLnHeldHeader = (static_cast<int>(sizeof(LayerNormHeldShared)) + 127) / 128 * 128;

template <class T>
__global__ void __launch_bounds__(kLnPlaneThreads, 4)
    layer_norm_planes_held(const __grid_constant__ LayerNormPlaneArgs args,
                           const __grid_constant__ tile::LoopNest<kLnSlots> sets,
                           const __grid_constant__ LayerNormHeldShape shape) {
  constexpr int N = tile::kPackWidth<T>;
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<LayerNormHeldShared*>(dynamic);
  auto* const held_x = reinterpret_cast<T*>(dynamic + kLnHeldHeader);
  T* const held_dy = held_x + shape.pieces * args.part_packs * N;
  const auto cluster = static_cast<std::uint32_t>(shape.cluster);
  const std::uint32_t set = blockIdx.x / cluster;
  const auto rank = static_cast<int>(blockIdx.x - set * cluster);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const auto plane_packs = static_cast<int>(args.plane_packs.divisor);
  // The block's pieces, and a piece's plane and packs.
  const int of_set = static_cast<int>(args.of_set.divisor) * args.parts;
  const int first = min(rank * shape.pieces, of_set);
  const int count = min(shape.pieces, of_set - first);
  const auto begin_of = [&](int piece) {
    std::uint32_t part;
    const std::uint32_t plane = args.by_parts.divmod(static_cast<std::uint32_t>(piece), &part);
    return static_cast<int>(plane) * plane_packs + static_cast<int>(part) * args.part_packs;
  };
  const int begin = begin_of(first);
  const int packs = begin_of(first + count) - begin;

  std::int64_t offset[kLnSlots];
  row_offsets(sets, set, offset);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared->full, 1);
    ptx::mbarrier_init(&shared->told, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&shared->told, cluster * static_cast<std::uint32_t>(sizeof(RowSums)));
    const auto bytes = static_cast<std::uint32_t>(packs) * 16;
    ptx::mbarrier_arrive_expect_tx(&shared->full, 2 * bytes);
    if (bytes > 0) {
      const std::int64_t before = static_cast<std::int64_t>(begin) * N;
      ptx::bulk_copy(held_x, static_cast<const T*>(args.x) + (offset[kLnX] + before), bytes, &shared->full);
      ptx::bulk_copy(held_dy, static_cast<const T*>(args.dy) + (offset[kLnOther] + before), bytes, &shared->full);
    }
  }
  __syncwarp();
  if (cluster > 1) ptx::cluster_arrive_relaxed();
  std::uint32_t group;
  const std::uint32_t sample = args.groups.divmod(set, &group);
  const std::uint32_t first_channel = group * args.of_set.divisor;
  const float mean = args.mean.data == nullptr ? 0 : load_one(args.mean.type, args.mean.data, offset[kLnMean]);
  const float inverse = load_one(args.inverse.type, args.inverse.data, offset[kLnInverse]);
  for (auto piece = static_cast<int>(threadIdx.x); piece < count; piece += static_cast<int>(blockDim.x)) {
    const std::uint32_t plane = args.by_parts.quotient(static_cast<std::uint32_t>(first + piece));
    shared->scales[piece] =
        args.scale.data == nullptr ? 1.0f : load_one(args.scale.type, args.scale.data, first_channel + plane);
  }
  __syncthreads();
  tile::wait(&shared->full, 0);

  for (int piece = warp; piece < count; piece += warps) {
    const int from = begin_of(first + piece) - begin, to = begin_of(first + piece + 1) - begin;
    RowSums sums = {0, 0};
#pragma unroll 2
    for (int pack = from + lane; pack < to; pack += 32) {
      float x[N], dy[N];
      tile::widen_pack<float>(tile::load_pack<T, N>(held_x + pack * N), x);
      tile::widen_pack<float>(tile::load_pack<T, N>(held_dy + pack * N), dy);
      RowSums part = {0, 0};
#pragma unroll
      for (int i = 0; i < N; ++i) {
        part.first += dy[i];
        part.second += dy[i] * ((x[i] - mean) * inverse);
      }
      sums.first += part.first;
      sums.second += part.second;
    }
    sums = warp_sums(sums);
    if (lane == 0) {
      std::uint32_t part;
      const std::uint32_t plane = args.by_parts.divmod(static_cast<std::uint32_t>(first + piece), &part);
      float* const out = args.partials + plane_place(args, sample, static_cast<int>(part), first_channel + plane);
      out[0] = sums.second;
      out[args.channels] = sums.first;
      const float scale = shared->scales[piece];
      shared->pieces[piece] = {sums.first * scale, sums.second * scale};
    }
  }
  __syncthreads();
  if (cluster > 1) ptx::cluster_wait();  // all blocks run, and their barriers are ready
  RowSums sums = {0, 0};
  for (int piece = lane; piece < count; piece += 32) {  // by each warp
    sums.first += shared->pieces[piece].first;
    sums.second += shared->pieces[piece].second;
  }
  sums = warp_sums(sums);
  if (cluster > 1) {
    if (warp == 0 && lane < shape.cluster) {
      std::uint64_t bits;
      memcpy(&bits, &sums, sizeof bits);
      const auto other = static_cast<std::uint32_t>(lane);
      ptx::st_async(ptx::mapa(ptx::shared_address(&shared->blocks[rank]), other), bits,
                    ptx::mapa(ptx::shared_address(&shared->told), other));
    }
    tile::wait(&shared->told, 0);
    sums = {0, 0};
    for (int block = 0; block < shape.cluster; ++block) {
      sums.first += shared->blocks[block].first;
      sums.second += shared->blocks[block].second;
    }
  }
  // dx = dy scale inverse + (x slope + shift)
  const float slope = -inverse * inverse * (sums.second * args.one_over_count);
  const float shift = (args.mean.data == nullptr ? 0 : -inverse * (sums.first * args.one_over_count));
  T* const dx = static_cast<T*>(args.dx) + (offset[kLnOut] + static_cast<std::int64_t>(begin) * N);
  for (int piece = warp; piece < count; piece += warps) {
    const int from = begin_of(first + piece) - begin, to = begin_of(first + piece + 1) - begin;
    const float weight = shared->scales[piece] * inverse;
#pragma unroll 2
    for (int pack = from + lane; pack < to; pack += 32) {
      float x[N], dy[N];
      tile::widen_pack<float>(tile::load_pack<T, N>(held_x + pack * N), x);
      tile::widen_pack<float>(tile::load_pack<T, N>(held_dy + pack * N), dy);
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = dy[i] * weight + ((x[i] - mean) * slope + shift);
      tile::store_pack(dx + pack * N, tile::narrow_pack<T>(x));
    }
  }
}

}  // namespace gpudnn::kernels
