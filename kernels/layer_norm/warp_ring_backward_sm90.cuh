// Layer normalization, backward, of rows of halves that a warp takes alone (the mathematics: rows_backward.cuh): the
// warps of a block share a ring in shared memory.
//
// A stage holds x and dy of neighbouring rows, one or two for each warp, as copies of a few KB take longer to ask for
// than to come. They come by TMA, as far ahead as there are stages, and warps take turns in asking: each stage is asked
// for again when the next group has come, so that nobody waits for the last warp that reads it. So what is under way
// needs no registers: those have the scale, dscale and dbias of a lane's columns, kPacks packs of 16 bytes. A row is
// read from its stage twice, for its sums and for dx. At the end the block's four add up their parts of dscale and
// dbias.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/ring.hpp"
#include "kernels/layer_norm/rows_backward.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

constexpr int kLnWarpRings = kLnWarpThreads / 32;  // warps of a block
constexpr int kLnWarpRingStages = 2;
// Rows of a stage for each warp.
constexpr int layer_norm_warp_ring_rows(int packs) { return packs <= 2 ? 2 : 1; }

// Dynamic shared memory of a block, for rows of `row_packs` packs: the stages, and later the parts of dscale and dbias.
constexpr int layer_norm_warp_ring_bytes(int packs, int row_packs) {
  return kLnWarpRings * kLnWarpRingStages * layer_norm_warp_ring_rows(packs) * 2 * row_packs * 16;
}

template <class T, int kPacks>
__global__ void __launch_bounds__(kLnWarpThreads, layer_norm_warp_ring_blocks(kPacks * 32))
    layer_norm_warp_ring_backward(const __grid_constant__ LayerNormBackwardArgs args,
                                  const __grid_constant__ tile::LoopNest<kLnSlots> rows) {
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kRows = layer_norm_warp_ring_rows(kPacks);
  constexpr int kStages = kLnWarpRingStages;
  constexpr unsigned kGroup = kLnWarpRings * kRows;  // rows of a stage
  __shared__ std::uint64_t full[kStages];
  __shared__ std::uint64_t empty[kStages];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const int packs = static_cast<int>(args.length / N);
  const auto row_bytes = static_cast<std::uint32_t>(packs) * 16;
  const std::uint32_t sample = blockIdx.x / args.parts;
  const std::uint32_t first = blockIdx.x % args.parts;
  const std::uint32_t step = args.parts;
  const int stage_bytes = static_cast<int>(kGroup * 2 * row_bytes);
  unsigned char* const stages = tile::dynamic_shared();

  // The rows of a group: how many, and where they lie.
  const auto held_in = [&](std::uint32_t group) {
    const std::uint32_t number = group * kGroup;
    return group >= args.steps || number >= args.of_sample ? 0u : min(args.of_sample - number, kGroup);
  };
  const auto offset_in = [&](int slot, std::uint32_t group, std::uint32_t row) {
    return rows.offset_in(slot, sample * args.of_sample + group * kGroup + row);
  };
  // By one thread: rows of x and then those of dy, in one piece or row by row.
  const bool in_line = rows.strides[kLnX][0] == args.length && rows.strides[kLnOther][0] == args.length &&
                       (rows.rank == 1 || rows.dims[0].divisor == args.of_sample);
  const auto ask = [&](int stage, std::uint32_t group) {
    const std::uint32_t held = held_in(group);
    if (held == 0) return;
    ptx::mbarrier_arrive_expect_tx(&full[stage], 2 * held * row_bytes);
    const std::uint32_t at_once = in_line ? held : 1;
#pragma unroll 1
    for (std::uint32_t row = 0; row < held; row += at_once) {
      unsigned char* const to = stages + stage * stage_bytes + row * row_bytes;
      ptx::bulk_copy(to, static_cast<const T*>(args.x) + offset_in(kLnX, group, row), at_once * row_bytes,
                     &full[stage]);
      ptx::bulk_copy(to + kGroup * row_bytes, static_cast<const T*>(args.dy) + offset_in(kLnOther, group, row),
                     at_once * row_bytes, &full[stage]);
    }
  };
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : full) ptx::mbarrier_init(&barrier, 1);
    for (std::uint64_t& barrier : empty) ptx::mbarrier_init(&barrier, kLnWarpThreads);
    ptx::fence_mbarrier_init();
    for (int stage = 0; stage < kStages; ++stage) ask(stage, first + static_cast<unsigned>(stage) * step);
  }
  __syncthreads();

  float scale[kPacks][N];
  float dscale[kPacks][N] = {};
  float dbias[kPacks][N] = {};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    fill(scale[k], 1.0f);
    if (args.scale.data != nullptr && lane + k * 32 < packs)
      load_parameters(args.scale, sample * args.scale_sample + (lane + k * 32) * N, scale[k]);
  }
  // The statistics of rows are asked for a group ahead, a row by each lane.
  float next_mean = 0, next_inverse = 0;
  const auto look_up = [&](std::uint32_t group) {
    const auto row = static_cast<std::uint32_t>(warp * kRows + lane);
    if (lane >= kRows || row >= held_in(group)) return;
    if (args.mean.data != nullptr) next_mean = load_one(args.mean.type, args.mean.data, offset_in(kLnMean, group, row));
    next_inverse = load_one(args.inverse.type, args.inverse.data, offset_in(kLnInverse, group, row));
  };
  look_up(first);

  tile::PipelineState<kStages> state, asked;
  std::uint32_t turn = 0;
  for (std::uint32_t group = first; held_in(group) > 0; group += step, ++turn) {
    const std::uint32_t held = held_in(group);
    const float means = next_mean, inverses = next_inverse;
    look_up(group + step);
    tile::wait(&full[state.stage], state.parity);
    if (turn > 0) {  // what the group before has given back
      if (lane == 0 && turn % kLnWarpRings == static_cast<std::uint32_t>(warp) &&
          held_in(group + (kStages - 1) * step) > 0) {
        tile::wait(&empty[asked.stage], asked.parity);
        ask(asked.stage, group + (kStages - 1) * step);
      }
      asked.next();
    }
    const std::uint32_t its = static_cast<std::uint32_t>(warp * kRows);
    const std::uint32_t end = min(its + kRows, held);
#pragma unroll 1
    for (std::uint32_t row = its; row < end; ++row) {
      const float mean = __shfl_sync(0xffffffffu, means, static_cast<int>(row - its));
      const float inverse = __shfl_sync(0xffffffffu, inverses, static_cast<int>(row - its));
      const T* const x_row =
          reinterpret_cast<const T*>(stages + state.stage * stage_bytes + row * row_bytes) + lane * N;
      const T* const dy_row = x_row + kGroup * packs * N;
      RowSums sums = {0, 0};
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        if (lane + k * 32 >= packs) continue;
        float x[N], dy[N];
        tile::widen_pack<float>(tile::load_pack<T, N>(x_row + k * 32 * N), x);
        tile::widen_pack<float>(tile::load_pack<T, N>(dy_row + k * 32 * N), dy);
        add_pack(x, dy, scale[k], mean, inverse, &sums, dscale[k], dbias[k]);
      }
      const LayerNormRowGradient gradient(args, mean, inverse, warp_sums(sums));
      T* const dx = static_cast<T*>(args.dx) + offset_in(kLnOut, group, row) + lane * N;
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        if (lane + k * 32 >= packs) continue;
        float x[N], dy[N];
        tile::widen_pack<float>(tile::load_pack<T, N>(x_row + k * 32 * N), x);
        tile::widen_pack<float>(tile::load_pack<T, N>(dy_row + k * 32 * N), dy);
        gradient.of_pack(x, dy, scale[k]);
        tile::store_pack(dx + k * 32 * N, tile::narrow_pack<T>(x));
      }
    }
    ptx::mbarrier_arrive(&empty[state.stage]);  // each thread for what it has read
    state.next();
  }
  ptx::griddepcontrol_launch_dependents();
  if (args.partials == nullptr) return;

  // The parts of the block's warps, added in order. All that was asked for has come.
  const int columns = packs * N;
  auto* const parts = reinterpret_cast<float*>(tile::dynamic_shared());  // [warp][dscale, dbias][column]
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (lane + k * 32 >= packs) continue;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      float* const to = parts + warp * 2 * columns + (lane + k * 32) * N + i;
      *reinterpret_cast<float4*>(to) = make_float4(dscale[k][i], dscale[k][i + 1], dscale[k][i + 2], dscale[k][i + 3]);
      *reinterpret_cast<float4*>(to + columns) =
          make_float4(dbias[k][i], dbias[k][i + 1], dbias[k][i + 2], dbias[k][i + 3]);
    }
  }
  __syncthreads();
  float* const part = args.partials + static_cast<std::int64_t>(blockIdx.x) * 2 * columns;
  for (int at = static_cast<int>(threadIdx.x); at < 2 * columns; at += kLnWarpThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kLnWarpRings; ++w) sum += parts[w * 2 * columns + at];
    part[at] = sum;
  }
}

}  // namespace gpudnn::kernels
