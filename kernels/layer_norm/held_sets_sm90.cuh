// Group and instance normalization, forward, of large sets whose elements lie one after the other and share their
// parameters in long runs (the mathematics: resident_rows_sm90.cuh): a cluster has a set, each of its blocks holds a
// part of it in shared memory, and leaves when that is written.
//
// A block asks for its part by one bulk copy, and each warp measures a piece. The pieces' moments are told to all
// blocks of the cluster by asynchronous stores that a barrier counts, and each warp joins them for itself. Several
// blocks of different sets share a multiprocessor, so that one loads while another measures or writes. y may be x.
//
// Where the squares exceed the range of float (rows.cuh), the set is scaled by 2^-80 and measured again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/held_moments.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/st_async_narrow.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

constexpr int kLnHeldThreads = 256;
constexpr int kLnHeldWarps = kLnHeldThreads / 32;
constexpr int kLnHeldCluster = 16;  // blocks, at most

struct LayerNormHeldSetsShape {
  std::int32_t block_packs;  // of a set, for each block but the last
  std::int32_t piece_packs;  // of a block, for each warp but the last
  std::int32_t segments;     // of a block, at most: parameters
};

struct LayerNormHeldSetsShared {
  std::uint64_t full;                                // the block's part is there
  std::uint64_t told[2];                             // all moments, and those that are measured again
  float2 moments[2][kLnHeldCluster * kLnHeldWarps];  // of a piece: mean, squares
};
// Where the parameters (scale, bias) begin, and then the block's part of the set.
constexpr int kLnHeldParametersAt = static_cast<int>(sizeof(LayerNormHeldSetsShared));
constexpr int layer_norm_held_at(int segments) {
  return (kLnHeldParametersAt + segments * static_cast<int>(sizeof(float2)) + 127) / 128 * 128;
}

template <class T>
__global__ void __launch_bounds__(kLnHeldThreads, 6)
    layer_norm_held_sets(const __grid_constant__ LayerNormResidentArgs args,
                         const __grid_constant__ LayerNormHeldSetsShape shape) {
  constexpr int N = tile::kPackWidth<T>;
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<LayerNormHeldSetsShared*>(dynamic);
  auto* const parameters = reinterpret_cast<float2*>(dynamic + kLnHeldParametersAt);
  auto* const held = reinterpret_cast<T*>(dynamic + layer_norm_held_at(shape.segments));

  const auto cluster = static_cast<std::uint32_t>(args.cluster);
  const std::uint32_t set = blockIdx.x / cluster;
  const auto rank = static_cast<int>(blockIdx.x - set * cluster);
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  const int parts = args.cluster * kLnHeldWarps;
  const auto packs_of = [&](int block) {
    return min(max(args.packs - block * shape.block_packs, 0), shape.block_packs);
  };
  const int before = rank * shape.block_packs;
  const int packs = packs_of(rank);

  if (thread == 0) {
    ptx::mbarrier_init(&shared->full, 1);
    for (std::uint64_t& told : shared->told) ptx::mbarrier_init(&told, 1);
    ptx::fence_mbarrier_init();
    const auto bytes = static_cast<std::uint32_t>(packs) * 16;
    ptx::mbarrier_arrive_expect_tx(&shared->full, bytes);
    if (bytes > 0)
      ptx::bulk_copy(held, static_cast<const T*>(args.x) + (set * args.x_row + before * N), bytes, &shared->full);
    for (std::uint64_t& told : shared->told)
      ptx::mbarrier_arrive_expect_tx(&told, static_cast<std::uint32_t>(parts) * sizeof(float2));
  }
  // The parameters of the block's part.
  const auto segment_of = [&](int pack) {
    return static_cast<int>(args.segment.quotient(static_cast<std::uint32_t>(pack) * N));
  };
  const bool one = args.segment.divisor == 1 || packs == 0;  // of all columns
  const int first_segment = one ? 0 : segment_of(before);
  const int segments = one ? 1 : segment_of(before + packs - 1) - first_segment + 1;
  for (int i = thread; i < segments; i += kLnHeldThreads) {
    std::uint32_t quick;
    const std::uint32_t slow = args.quick_rows.divmod(set, &quick);
    const std::int64_t at = first_segment + i;
    float2 both = {1, 0};
    if (args.scale.data != nullptr)
      both.x = load_one(args.scale.type, args.scale.data, slow * args.scale_slow + quick * args.scale_quick + at);
    if (args.bias.data != nullptr)
      both.y = load_one(args.bias.type, args.bias.data, slow * args.bias_slow + quick * args.bias_quick + at);
    parameters[i] = both;
  }
  __syncthreads();
  ptx::cluster_arrive_relaxed();

  const int from = min(warp * shape.piece_packs, packs), to = min(from + shape.piece_packs, packs);
  const auto tell = [&](int attempt) {
    float2 moments = {0, 0};
    if (from < to) moments = held_moments(held, from, to, args.rms);
    if (attempt == 0) ptx::cluster_wait();  // all blocks run, and their barriers are ready
    if (lane < args.cluster) {
      const auto other = static_cast<std::uint32_t>(lane);
      ptx::st_async(ptx::mapa(ptx::shared_address(&shared->moments[attempt][rank * kLnHeldWarps + warp]), other),
                    moments, ptx::mapa(ptx::shared_address(&shared->told[attempt]), other));
    }
    __syncwarp();
  };
  float mean = 0, variance = 0;
  const auto join = [&](int attempt) {
    tile::wait(&shared->told[attempt], 0);
    const float2* const all = shared->moments[attempt];
    const auto number_of = [&](int part) {
      const int of_block = packs_of(part / kLnHeldWarps) - part % kLnHeldWarps * shape.piece_packs;
      return static_cast<float>(min(max(of_block, 0), shape.piece_packs) * N);
    };
    if (!args.rms) {
      const float base = all[0].x;  // so that equal values have their own mean
      double apart = 0;             // the first piece's mean may be far greater than the others'
#pragma unroll 1
      for (int w = lane; w < parts; w += 32)
        apart += (static_cast<double>(all[w].x) - base) * static_cast<double>(number_of(w));
      mean = static_cast<float>(base + tile::warp_reduce(apart, tile::Sum{}) * args.one_over_length);
    }
    float squares = 0;
#pragma unroll 1
    for (int w = lane; w < parts; w += 32) {
      const float distance = all[w].x - mean;
      squares += all[w].y + distance * distance * number_of(w);
    }
    variance = tile::warp_reduce(squares, tile::Sum{}) * args.one_over_length;
  };
  tile::wait(&shared->full, 0);
  tell(0);
  join(0);
  // All warps of all blocks have the same answer. Squares of halves always fit.
  const bool scaled = !std::is_same_v<T, tile::Half> && !(variance <= kLnGreatest);
  if (scaled) {
    scale_held(held, from, to);
    tell(1);
    __syncthreads();  // what other warps have scaled
    join(1);
  }
  const float2 of_set = keep_moments(args, set, mean, variance, scaled, thread == 0 && rank == 0);

  T* const out = static_cast<T*>(args.y) + (set * args.out_row + before * N);
#pragma unroll 4
  for (int pack = thread; pack < packs; pack += kLnHeldThreads) {
    const float2 both = parameters[segments == 1 ? 0 : segment_of(before + pack) - first_segment];
    float values[N];
    tile::widen_pack<float>(tile::load_pack<T, N>(held + pack * N), values);
#pragma unroll
    for (float& value : values) value = fmaf(fmaf(value, of_set.x, of_set.y), both.x, both.y);
    tile::store_pack(out + pack * N, tile::narrow_pack<T>(values));
  }
}

}  // namespace gpudnn::kernels
