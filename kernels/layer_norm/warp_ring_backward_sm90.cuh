// Layer normalization, backward, of rows of halves that a warp takes alone (the mathematics: rows_backward.cuh): each
// warp has a ring of its own in shared memory.
//
// A stage holds x and dy of one row or of two neighbours, as copies of less than some 1.5 KB take longer to ask for
// than to come. The warp's first lane asks for them by TMA, as many rows ahead as there are stages. So what is under
// way needs no registers: those have the scale, dscale and dbias of a lane's columns, kPacks packs of 16 bytes. A row
// is read from its stage twice, for its sums and for dx. No warp waits for another one before the end, where the
// block's four add up their parts of dscale and dbias.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/rows_backward.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

constexpr int kLnWarpRings = kLnWarpThreads / 32;  // of a block
// Rows of a stage, and stages of a ring.
constexpr int layer_norm_warp_ring_rows(int packs) { return packs <= 2 ? 2 : 1; }
constexpr int layer_norm_warp_ring_stages(int packs) { return packs <= 2 ? 3 : 4; }

// Dynamic shared memory of a block, for rows of `row_packs` packs: the stages, and later the parts of dscale and dbias.
constexpr int layer_norm_warp_ring_bytes(int packs, int row_packs) {
  return kLnWarpRings * layer_norm_warp_ring_stages(packs) * layer_norm_warp_ring_rows(packs) * 2 * row_packs * 16;
}

template <class T, int kPacks>
__global__ void __launch_bounds__(kLnWarpThreads, 4)
    layer_norm_warp_ring_backward(const __grid_constant__ LayerNormBackwardArgs args,
                                  const __grid_constant__ tile::LoopNest<kLnSlots> rows) {
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kRows = layer_norm_warp_ring_rows(kPacks);
  constexpr int kStages = layer_norm_warp_ring_stages(kPacks);
  __shared__ std::uint64_t full[kLnWarpRings][kStages];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const int packs = static_cast<int>(args.length / N);
  const auto row_bytes = static_cast<std::uint32_t>(packs) * 16;
  const std::uint32_t sample = blockIdx.x / args.parts;
  const std::uint32_t first = blockIdx.x % args.parts;
  const std::uint32_t step = args.parts;
  const int stage_bytes = kRows * 2 * static_cast<int>(row_bytes);
  unsigned char* const stages = tile::dynamic_shared() + warp * kStages * stage_bytes;

  // The warp's rows of a group: how many, and where they lie.
  const auto number_of = [&](std::uint32_t group) {
    return (group * kLnWarpRings + static_cast<std::uint32_t>(warp)) * kRows;
  };
  const auto held_in = [&](std::uint32_t group) {
    const std::uint32_t number = number_of(group);
    return group >= args.steps || number >= args.of_sample ? 0u : min(args.of_sample - number, unsigned{kRows});
  };
  const auto offset_in = [&](int slot, std::uint32_t group, std::uint32_t row) {
    return rows.offset_in(slot, sample * args.of_sample + number_of(group) + row);
  };
  // Rows of x and then those of dy; each lane below kRows asks for a row, or the first one for all of them.
  const bool in_line =
      rows.rank == 1 && rows.strides[kLnX][0] == args.length && rows.strides[kLnOther][0] == args.length;
  const auto ask = [&](int stage, std::uint32_t group) {
    const std::uint32_t held = held_in(group);
    if (held == 0) return;
    std::uint64_t* const barrier = &full[warp][stage];
    if (lane == 0) ptx::mbarrier_arrive_expect_tx(barrier, 2 * held * row_bytes);
    __syncwarp();
    const auto row = static_cast<std::uint32_t>(lane);
    if (row >= (in_line ? 1 : held)) return;
    const std::uint32_t bytes = in_line ? held * row_bytes : row_bytes;
    unsigned char* const to = stages + stage * stage_bytes + row * row_bytes;
    ptx::bulk_copy(to, static_cast<const T*>(args.x) + offset_in(kLnX, group, row), bytes, barrier);
    ptx::bulk_copy(to + kRows * row_bytes, static_cast<const T*>(args.dy) + offset_in(kLnOther, group, row), bytes,
                   barrier);
  };
  if (lane == 0) {
    for (std::uint64_t& barrier : full[warp]) ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncwarp();
  for (int stage = 0; stage < kStages; ++stage) ask(stage, first + static_cast<unsigned>(stage) * step);

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
    const auto row = static_cast<std::uint32_t>(lane);
    if (row >= held_in(group)) return;
    if (args.mean.data != nullptr) next_mean = load_one(args.mean.type, args.mean.data, offset_in(kLnMean, group, row));
    next_inverse = load_one(args.inverse.type, args.inverse.data, offset_in(kLnInverse, group, row));
  };
  look_up(first);

  tile::PipelineState<kStages> state;
  for (std::uint32_t group = first; held_in(group) > 0; group += step) {
    const std::uint32_t held = held_in(group);
    const float means = next_mean, inverses = next_inverse;
    look_up(group + step);
    tile::wait(&full[warp][state.stage], state.parity);
#pragma unroll 1
    for (std::uint32_t row = 0; row < held; ++row) {
      const float mean = __shfl_sync(0xffffffffu, means, static_cast<int>(row));
      const float inverse = __shfl_sync(0xffffffffu, inverses, static_cast<int>(row));
      const T* const x_row =
          reinterpret_cast<const T*>(stages + state.stage * stage_bytes + row * row_bytes) + lane * N;
      const T* const dy_row = x_row + kRows * packs * N;
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
    __syncwarp();  // the stage was read
    ask(state.stage, group + kStages * step);
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
