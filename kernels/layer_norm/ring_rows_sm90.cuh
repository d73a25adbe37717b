// Layer normalization, forward, of long rows of halves (the mathematics: resident_rows_sm90.cuh), where memory never
// waits for a reduction: the rows pass through a ring of stages in shared memory.
//
// A cluster takes rows in turn, each of its blocks the same part of every row. A thread has kPacks packs of a row, and
// keeps the parameters of their columns in registers. A turn takes two passes:
//
//   row i + 1     each warp: the mean of its values and the squares of the deviations from it (row_groups_sm90.cuh)
//   row i         the moments of all warps of all blocks, which were told a turn ago, are joined
//   tell row i + 1: by plain stores, or to every block of a cluster by asynchronous ones that a barrier counts
//   row i         is read again and written; then the block meets, and the stage is filled with another row by TMA
//
// Two places are enough for the moments: who sends those of row i + 2 has received row i + 1's, of which every warp
// told only after it had read row i's. y may be x: a row is in shared memory before any of it is written.
//
// Where the squares exceed the range of float (rows.cuh), the row is scaled by 2^-80, measured and told again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/row_groups_sm90.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

constexpr int kLnRingRowsMaxStages = 6;
constexpr int kLnRingRowsMaxWarps = 16;  // of a block
constexpr int kLnRingRowsPacks = 4;      // of a thread
constexpr int kLnRingRowsThreads = 512;  // of the blocks of a multiprocessor together, for the sake of registers

struct LayerNormRingRowsShape {
  std::int32_t stages;
  std::int32_t block_packs;  // of a row, for each block but the last
};

struct LayerNormRingRowsShared {
  std::uint64_t full[kLnRingRowsMaxStages];
  std::uint64_t told[3];  // a cluster's: all moments of an even or odd row, or of one that is measured again
  float4 moments[3][kLnMaxCluster * kLnRingRowsMaxWarps];  // of a warp's values: mean, squares, and their number
};
constexpr int kLnRingRowsStagesAt = (static_cast<int>(sizeof(LayerNormRingRowsShared)) + 127) / 128 * 128;

template <class T>
__global__ void __launch_bounds__(kLnRingRowsThreads, 1)
    layer_norm_ring_rows(const __grid_constant__ LayerNormResidentArgs args,
                         const __grid_constant__ LayerNormRingRowsShape shape) {
  constexpr int N = 8, kPacks = kLnRingRowsPacks;
  constexpr int kAgain = 2;  // the place of moments that are measured again
  using Pack = tile::Pack<T, N>;
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<LayerNormRingRowsShared*>(dynamic);
  unsigned char* const stages = dynamic + kLnRingRowsStagesAt;

  const auto cluster = static_cast<std::uint32_t>(args.cluster);
  const bool alone = cluster == 1;
  const std::uint32_t first = blockIdx.x / cluster;
  const auto rank = static_cast<int>(blockIdx.x - first * cluster);
  const std::uint32_t count = (args.rows - first + args.row_step - 1) / args.row_step;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  const int warps = threads / 32;
  const int warp = thread / 32, lane = thread % 32;
  const int parts = warps * args.cluster;
  // The block's part of a row.
  const int before = rank * shape.block_packs;
  const int packs = min(max(args.packs - before, 0), shape.block_packs);
  const int stage_bytes = shape.block_packs * 16;

  std::uint32_t filled = 0;
  tile::RingState filling;
  const auto fill_stage = [&] {  // with the row after the last one that was asked for
    const auto bytes = static_cast<std::uint32_t>(packs) * 16;
    std::uint64_t* const full = &shared->full[filling.stage];
    if (bytes > 0) {
      const std::int64_t at = (first + filled * args.row_step) * args.x_row + before * N;
      ptx::bulk_copy(stages + filling.stage * stage_bytes, static_cast<const T*>(args.x) + at, bytes, full);
    }
    ptx::mbarrier_arrive_expect_tx(full, bytes);
    filling.next(static_cast<std::uint32_t>(shape.stages));
    ++filled;
  };
  const auto expect = [&](std::uint64_t* told) {
    ptx::mbarrier_arrive_expect_tx(told, static_cast<std::uint32_t>(parts) * sizeof(float4));
  };
  if (thread == 0) {
    for (int stage = 0; stage < shape.stages; ++stage) ptx::mbarrier_init(&shared->full[stage], 1);
    for (std::uint64_t& told : shared->told) ptx::mbarrier_init(&told, 1);
    ptx::fence_mbarrier_init();
    for (std::uint64_t& told : shared->told) expect(&told);
    while (filled < count && filled < static_cast<std::uint32_t>(shape.stages)) fill_stage();
  }

  bool mine[kPacks];
  float scale[kPacks][N], bias[kPacks][N];
  int own_packs = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int pack = thread + k * threads;
    mine[k] = pack < packs;
    own_packs += min(max(packs - warp * 32 - k * threads, 0), 32);
    fill(scale[k], 1.0f);
    fill(bias[k], 0.0f);
    const auto read = [&](const LayerNormParameter& parameter, float(&values)[N]) {
      const int column = (before + pack) * N;
      if (parameter.type == tile::AnyType::f32)
        load_values(static_cast<const float*>(parameter.data) + column, values);
      else
        load_values(static_cast<const T*>(parameter.data) + column, values);
    };
    if (!mine[k]) continue;
    read(args.scale, scale[k]);
    if (args.bias.data != nullptr) read(args.bias, bias[k]);
  }
  const auto own_values = static_cast<float>(own_packs * N);
  const float one_over_own = own_values > 0 ? ptx::rcp_approx_ftz(own_values) : 0.0f;
  tile::cluster_sync(args.cluster);  // all blocks run, and each barrier is ready

  const auto pack_at = [&](std::uint32_t stage, int k) {
    return reinterpret_cast<const T*>(stages + stage * stage_bytes) + (thread + k * threads) * N;
  };
  // Mean and squares of the warp's values of the row in a stage, or of these scaled down.
  const auto measure = [&](std::uint32_t stage, auto down) {
    Pack row[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      row[k].fill(T{0});
      if (mine[k]) row[k] = tile::load_pack<T, N>(pack_at(stage, k));
      if constexpr (down.value) {
        float values[N];
        tile::widen_pack<float>(row[k], values);
#pragma unroll
        for (float& value : values) value *= kLnDown;
        row[k] = tile::narrow_pack<T>(values);
      }
    }
    float2 moments = {0, 0};
    if (!args.rms) {
      // With the remainder, it is exact for equal values.
      const float sum = warp_sum_of_packs<T>(row);
      const float quotient = sum * one_over_own;
      moments.x = fmaf(fmaf(-quotient, own_values, sum), one_over_own, quotient);
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      float values[N];
      tile::widen_pack<float>(row[k], values);
      float part = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) part += (values[i] - moments.x) * (values[i] - moments.x);
      moments.y += mine[k] ? part : 0.0f;
    }
    moments.y = tile::warp_reduce(moments.y, tile::Sum{});
    return moments;
  };
  const auto tell = [&](int place, const float2& moments) {
    float4* const to = &shared->moments[place][rank * warps + warp];
    const float4 told = make_float4(moments.x, moments.y, own_values, 0);
    if (alone) {
      if (lane == 0) *to = told;
      return;
    }
    __syncwarp();  // all lanes have read the moments that those of the next row take the place of
    if (lane < args.cluster) {
      const auto other = static_cast<std::uint32_t>(lane);
      ptx::st_async(ptx::mapa(ptx::shared_address(to), other), told,
                    ptx::mapa(ptx::shared_address(&shared->told[place]), other));
    }
    __syncwarp();
  };
  // Mean and variance of a row, by all lanes of each warp.
  const auto join = [&](int place, std::uint32_t parity) {
    if (!alone) {
      tile::wait(&shared->told[place], parity);
      if (thread == 0) expect(&shared->told[place]);
    }
    const float4* const all = shared->moments[place];
    float mean = 0, squares = 0;
    if (!args.rms) {
      const float base = all[0].x;  // so that equal values have their own mean
      float apart = 0;
#pragma unroll 1
      for (int w = lane; w < parts; w += 32) apart += (all[w].x - base) * all[w].z;
      mean = base + tile::warp_reduce(apart, tile::Sum{}) * args.one_over_length;
    }
#pragma unroll 1
    for (int w = lane; w < parts; w += 32) {
      const float distance = all[w].x - mean;
      squares += all[w].y + distance * distance * all[w].z;
    }
    return make_float2(mean, tile::warp_reduce(squares, tile::Sum{}) * args.one_over_length);
  };

  tile::RingState ahead, state;  // of the row that is measured, and of that which is written
  const auto next_moments = [&] {
    tile::wait(&shared->full[ahead.stage], ahead.parity);
    const float2 moments = measure(ahead.stage, std::false_type{});
    ahead.next(static_cast<std::uint32_t>(shape.stages));
    return moments;
  };
  tell(0, next_moments());
  if (alone) __syncthreads();
  [[maybe_unused]] std::uint32_t again = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    float2 next = {0, 0};
    if (i + 1 < count) next = next_moments();
    const std::uint32_t row = first + i * args.row_step;
    float2 moments = join(static_cast<int>(i & 1), i >> 1 & 1);
    bool scaled = false;
    if constexpr (!std::is_same_v<T, tile::Half>) {  // squares of halves always fit
      scaled = !(moments.y <= kLnGreatest);
      if (scaled) {
        tell(kAgain, measure(state.stage, std::true_type{}));
        if (alone) __syncthreads();
        moments = join(kAgain, again++ & 1);
      }
    }
    if (i + 1 < count) tell(static_cast<int>(i + 1 & 1), next);

    float inverse = rsqrtf(moments.y + (scaled ? 0.0f : args.epsilon));
    const float shift = -moments.x * inverse;
    if (thread == 0 && rank == 0 && args.mean != nullptr)
      tile::store_any(args.mean_type, args.mean, row * args.mean_row, scaled ? moments.x * kLnUp : moments.x);
    if (scaled) inverse *= kLnDown;
    if (thread == 0 && rank == 0 && args.inverse != nullptr)
      tile::store_any(args.inverse_type, args.inverse, row * args.inverse_row, inverse);
    T* const out = static_cast<T*>(args.y) + (row * args.out_row + (before + thread) * N);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (!mine[k]) continue;
      float values[N];
      tile::widen_pack<float>(tile::load_pack<T, N>(pack_at(state.stage, k)), values);
#pragma unroll
      for (int n = 0; n < N; ++n) values[n] = fmaf(fmaf(values[n], inverse, shift), scale[k][n], bias[k][n]);
      tile::store_pack(out + k * threads * N, tile::narrow_pack<T>(values));
    }
    state.next(static_cast<std::uint32_t>(shape.stages));
    __syncthreads();  // the stage is read
    if (thread == 0 && filled < count) fill_stage();
  }
}

}  // namespace gpudnn::kernels
