// Group and instance normalization, backward, where the elements of a set lie one after the other: a set is a run of
// planes, one for each of its channels, and each channel has one scale, dscale and dbias.
//
//   g = dy * scale;  dx = inverse * (g - mean(g) - xhat * mean(g * xhat));  dscale = sum(dy * xhat);  dbias = sum(dy)
//
// Both sums of a set come from those of its planes, sum(dy * xhat) and sum(dy), each times the channel's scale. So one
// kernel takes the sums of planes (parts of planes, where they are large), a second one adds up those of its set and
// writes dx, and dscale and dbias are sums of the same numbers over the samples. x and dy are read twice; the second
// kernel goes through memory backwards, as the L2 still has the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/row.cuh"

namespace gpudnn::kernels {

struct LayerNormPlaneArgs {
  const void* x;
  const void* dy;
  void* dx;
  LayerNormParameter scale;
  LayerNormParameter mean;  // null: RMS
  LayerNormParameter inverse;
  float* partials;  // [sample][part][dscale, dbias][channel]
  std::int32_t channels;
  std::int32_t parts;       // of a plane
  std::int32_t part_packs;  // of a part, but for the last one
  std::int32_t pieces;      // of a set, each for a block of the second kernel
  std::uint32_t units;      // parts of all planes; pieces of all sets
  tile::FastDivmod plane_packs;
  tile::FastDivmod by_parts;
  tile::FastDivmod by_pieces;
  tile::FastDivmod of_set;  // planes of a set
  tile::FastDivmod groups;  // sets of a sample
  float one_over_count;
};

constexpr int kLnPlaneThreads = 256;
constexpr int kLnPlaneFlight = 4;    // packs of a tensor that a thread has on their way
constexpr int kLnPlanePiece = 2048;  // packs of a block
constexpr int kLnPlaneWarp = 512;    // packs that a warp takes alone, at most

// The sum over the kThreads threads of a unit, by all of them.
template <int kThreads>
__device__ __forceinline__ RowSums unit_sums(RowSums sums, float (*scratch)[kLnPlaneThreads / 32]) {
  sums.first = tile::warp_reduce(sums.first, tile::Sum{});
  sums.second = tile::warp_reduce(sums.second, tile::Sum{});
  if constexpr (kThreads > 32) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) {
      scratch[0][threadIdx.x / 32] = sums.first;
      scratch[1][threadIdx.x / 32] = sums.second;
    }
    __syncthreads();
    sums = {};
    for (int warp = 0; warp < kThreads / 32; ++warp) {
      sums.first += scratch[0][warp];
      sums.second += scratch[1][warp];
    }
  }
  return sums;
}

// Where the numbers of a plane's part are in `partials`; those of dbias lie `channels` further on.
__device__ __forceinline__ std::int64_t plane_place(const LayerNormPlaneArgs& args, std::uint32_t sample, int part,
                                                    std::uint32_t channel) {
  return (static_cast<std::int64_t>(sample) * args.parts + part) * 2 * args.channels + channel;
}

// kThreads: of a unit, 32 or all of the block.
template <class T, int kThreads>
__global__ void __launch_bounds__(kLnPlaneThreads)
    layer_norm_plane_sums(const __grid_constant__ LayerNormPlaneArgs args,
                          const __grid_constant__ tile::LoopNest<kLnSlots> sets) {
  constexpr int N = tile::kPackWidth<T>;
  __shared__ float scratch[2][kLnPlaneThreads / 32];
  const std::uint32_t unit = blockIdx.x * (kLnPlaneThreads / kThreads) + threadIdx.x / kThreads;
  if (unit >= args.units) return;  // all threads of a unit alike
  std::uint32_t part, plane, group;
  const std::uint32_t set = args.of_set.divmod(args.by_parts.divmod(unit, &part), &plane);
  const std::uint32_t sample = args.groups.divmod(set, &group);
  std::int64_t offset[kLnSlots];
  row_offsets(sets, set, offset);
  const float mean = args.mean.data == nullptr ? 0 : load_one(args.mean.type, args.mean.data, offset[kLnMean]);
  const float inverse = load_one(args.inverse.type, args.inverse.data, offset[kLnInverse]);
  const auto packs = static_cast<int>(args.plane_packs.divisor);
  const std::int64_t before = static_cast<std::int64_t>(plane) * packs * N;
  const T* const x = static_cast<const T*>(args.x) + offset[kLnX] + before;
  const T* const dy = static_cast<const T*>(args.dy) + offset[kLnOther] + before;
  const int begin = static_cast<int>(part) * args.part_packs;
  const int end = min(begin + args.part_packs, packs);
  RowSums sums = {0, 0};
  for (int first = begin + static_cast<int>(threadIdx.x % kThreads); first < end; first += kLnPlaneFlight * kThreads) {
    tile::Pack<T, N> xs[kLnPlaneFlight], dys[kLnPlaneFlight];
#pragma unroll
    for (int u = 0; u < kLnPlaneFlight; ++u) {
      const std::int64_t pack = first + u * kThreads;
      if (pack < end) {
        xs[u] = tile::load_pack<T, N>(x + pack * N);
        dys[u] = tile::load_pack<T, N>(dy + pack * N);
      }
    }
#pragma unroll
    for (int u = 0; u < kLnPlaneFlight; ++u) {
      if (first + u * kThreads < end) {
        float xv[N], dyv[N];
        tile::widen_pack<float>(xs[u], xv);
        tile::widen_pack<float>(dys[u], dyv);
        RowSums part_sums = {0, 0};
#pragma unroll
        for (int i = 0; i < N; ++i) {
          part_sums.first += dyv[i];
          part_sums.second += dyv[i] * ((xv[i] - mean) * inverse);
        }
        sums.first += part_sums.first;
        sums.second += part_sums.second;
      }
    }
  }
  sums = unit_sums<kThreads>(sums, scratch);
  if (threadIdx.x % kThreads == 0) {
    float* const to =
        args.partials + plane_place(args, sample, static_cast<int>(part), group * args.of_set.divisor + plane);
    to[0] = sums.second;
    to[args.channels] = sums.first;
  }
}

template <class T, int kThreads>
__global__ void __launch_bounds__(kLnPlaneThreads)
    layer_norm_plane_dx(const __grid_constant__ LayerNormPlaneArgs args,
                        const __grid_constant__ tile::LoopNest<kLnSlots> sets) {
  constexpr int N = tile::kPackWidth<T>;
  __shared__ float scratch[2][kLnPlaneThreads / 32];
  std::uint32_t unit = blockIdx.x * (kLnPlaneThreads / kThreads) + threadIdx.x / kThreads;
  if (unit >= args.units) return;
  unit = args.units - 1 - unit;
  std::uint32_t piece, group;
  const std::uint32_t set = args.by_pieces.divmod(unit, &piece);
  const std::uint32_t sample = args.groups.divmod(set, &group);
  const auto thread = static_cast<int>(threadIdx.x % kThreads);
  const std::uint32_t first_channel = group * args.of_set.divisor;
  const auto scale_of = [&](std::uint32_t plane) {
    return args.scale.data == nullptr ? 1.0f : load_one(args.scale.type, args.scale.data, first_channel + plane);
  };
  std::int64_t offset[kLnSlots];
  row_offsets(sets, set, offset);
  const float mean = args.mean.data == nullptr ? 0 : load_one(args.mean.type, args.mean.data, offset[kLnMean]);
  const float inverse = load_one(args.inverse.type, args.inverse.data, offset[kLnInverse]);

  RowSums sums = {0, 0};
  const auto entries = static_cast<int>(args.of_set.divisor) * args.parts;
  for (int entry = thread; entry < entries; entry += kThreads) {
    std::uint32_t part;
    const std::uint32_t plane = args.by_parts.divmod(static_cast<std::uint32_t>(entry), &part);
    const float* const from = args.partials + plane_place(args, sample, static_cast<int>(part), first_channel + plane);
    const float scale = scale_of(plane);
    sums.first += scale * from[args.channels];
    sums.second += scale * from[0];
  }
  sums = unit_sums<kThreads>(sums, scratch);
  const float slope = -inverse * (sums.second * args.one_over_count);
  const float shift = args.mean.data == nullptr ? 0 : -inverse * (sums.first * args.one_over_count);

  const T* const x = static_cast<const T*>(args.x) + offset[kLnX];
  const T* const dy = static_cast<const T*>(args.dy) + offset[kLnOther];
  T* const dx = static_cast<T*>(args.dx) + offset[kLnOut];
  const auto packs = static_cast<int>(args.plane_packs.divisor * args.of_set.divisor);
  const int begin = static_cast<int>(piece) * kLnPlanePiece;
  const int end = args.pieces == 1 ? packs : min(begin + kLnPlanePiece, packs);
  for (int first = begin + thread; first < end; first += kLnPlaneFlight * kThreads) {
    tile::Pack<T, N> xs[kLnPlaneFlight], dys[kLnPlaneFlight];
#pragma unroll
    for (int u = 0; u < kLnPlaneFlight; ++u) {
      const std::int64_t pack = first + u * kThreads;
      if (pack < end) {
        xs[u] = tile::load_pack<T, N>(x + pack * N);
        dys[u] = tile::load_pack<T, N>(dy + pack * N);
      }
    }
#pragma unroll
    for (int u = 0; u < kLnPlaneFlight; ++u) {
      const int pack = first + u * kThreads;
      if (pack < end) {
        float xv[N], dyv[N];
        tile::widen_pack<float>(xs[u], xv);
        tile::widen_pack<float>(dys[u], dyv);
        const float weight = scale_of(args.plane_packs.quotient(static_cast<std::uint32_t>(pack))) * inverse;
#pragma unroll
        for (int i = 0; i < N; ++i) xv[i] = dyv[i] * weight + ((xv[i] - mean) * inverse * slope + shift);
        tile::store_pack(dx + static_cast<std::int64_t>(pack) * N, tile::narrow_pack<T>(xv));
      }
    }
  }
}

}  // namespace gpudnn::kernels
