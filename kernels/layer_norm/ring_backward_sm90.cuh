// Layer normalization, backward, of long rows (the mathematics: rows_backward.cuh), where memory never waits for a
// reduction: the rows pass through a ring of stages in shared memory.
//
// A cluster takes rows of its sample in turn, each of its blocks the same part of every row. The block's last warp
// fills the stages by TMA, each with a part of x and of dy, up to four rows ahead. The other threads keep the scale,
// dscale and dbias of their columns in registers, and a row takes two passes over its stage:
//
//   first pass of row i + 1     each warp: sum(g), sum(g * xhat), and what the row adds to dscale and dbias
//   wait for row i              the sums of all warps of all blocks have arrived
//   tell row i + 1              each warp sends its sums to every block of the cluster, by asynchronous stores that a
//                               barrier of the receiver counts
//   second pass of row i        each warp adds up all warps' sums of row i in one order, and writes dx
//
// Two places are enough for the sums: who sends those of row i + 2 has received row i + 1's, of which every warp told
// only after it had read row i's. dx may be x or dy: a row is in shared memory before any of it is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/ring.hpp"
#include "kernels/layer_norm/rows_backward.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

// A row in a stage.
struct LayerNormRingRow {
  float mean;
  float inverse;
  std::int64_t out;  // where the row begins in dx
};

struct LayerNormRingShared {
  std::uint64_t full[kLnRingMaxStages];
  std::uint64_t empty[kLnRingMaxStages];
  std::uint64_t told[2];
  LayerNormRingRow rows[kLnRingMaxStages];
  RowSums sums[2][8 * kLnRingMaxThreads / 32];
};
constexpr int kLnRingStagesAt = (static_cast<int>(sizeof(LayerNormRingShared)) + 127) / 128 * 128;
static_assert(kLnRingStagesAt <= kLnRingHeader, "the plan leaves room for the barriers and sums");

template <class T>
__device__ __forceinline__ void layer_norm_fill_ring(const LayerNormBackwardArgs& args,
                                                     const tile::LoopNest<kLnSlots>& rows, const LayerNormRing& ring,
                                                     LayerNormRingShared* shared, unsigned char* stages,
                                                     std::uint32_t first, std::uint32_t end, std::int64_t begin,
                                                     std::uint32_t bytes) {
  tile::RingState state;
  state.parity = 1;  // an empty stage is free at first
  const int stage_bytes = ring.block_packs * 32;
  // The statistics of a row are asked for a row ahead: nothing waits for them.
  std::int64_t offset[kLnSlots];
  float mean = 0, inverse = 0;
  const auto look_up = [&](std::uint32_t row) {
    row_offsets(rows, row, offset);
    if (args.mean.data != nullptr) mean = load_one(args.mean.type, args.mean.data, offset[kLnMean]);
    inverse = load_one(args.inverse.type, args.inverse.data, offset[kLnInverse]);
  };
  const std::uint32_t step = args.parts;
  if (first < end) look_up(first);
  for (std::uint32_t row = first; row < end; row += step) {
    const std::int64_t x_at = offset[kLnX], dy_at = offset[kLnOther], out_at = offset[kLnOut];
    const float this_mean = mean, this_inverse = inverse;
    if (row + step < end) look_up(row + step);
    tile::wait(&shared->empty[state.stage], state.parity);
    std::uint64_t* const full = &shared->full[state.stage];
    unsigned char* const stage = stages + state.stage * stage_bytes;
    if (bytes > 0) {
      ptx::bulk_copy(stage, static_cast<const T*>(args.x) + x_at + begin, bytes, full);
      ptx::bulk_copy(stage + ring.block_packs * 16, static_cast<const T*>(args.dy) + dy_at + begin, bytes, full);
    }
    LayerNormRingRow* const told = &shared->rows[state.stage];
    told->mean = this_mean;
    told->inverse = this_inverse;
    told->out = out_at;
    ptx::mbarrier_arrive_expect_tx(full, 2 * bytes);
    state.next(static_cast<std::uint32_t>(ring.stages));
  }
}

template <class T, int kPacks>
__global__ void __launch_bounds__(kLnRingResident, 1)
    layer_norm_ring_backward(const __grid_constant__ LayerNormBackwardArgs args,
                             const __grid_constant__ tile::LoopNest<kLnSlots> rows,
                             const __grid_constant__ LayerNormRing ring) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  if (args.is_accompanied) ptx::griddepcontrol_launch_dependents();
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<LayerNormRingShared*>(dynamic);
  unsigned char* const stages = dynamic + kLnRingStagesAt;
  const auto rank = static_cast<int>(blockIdx.x % static_cast<unsigned>(ring.cluster));
  const std::uint32_t part_number = blockIdx.x / static_cast<unsigned>(ring.cluster);
  const std::uint32_t sample = part_number / args.parts;
  const std::uint32_t first = part_number % args.parts;
  const std::uint32_t count = (args.of_sample - first + args.parts - 1) / args.parts;
  const int threads = ring.threads;
  const int warps = threads / 32;
  const bool alone = ring.cluster == 1;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  // The block's part of a row.
  const auto before = static_cast<std::int64_t>(rank) * ring.block_packs;
  const auto left = static_cast<int>(args.length / N - before);
  const int packs = left < 0 ? 0 : left < ring.block_packs ? left : ring.block_packs;

  const auto expect_sums = [&](std::uint32_t i) {
    ptx::mbarrier_arrive_expect_tx(&shared->told[i & 1],
                                   static_cast<std::uint32_t>(ring.cluster * warps) * sizeof(RowSums));
  };
  if (thread == 0) {
    for (int stage = 0; stage < ring.stages; ++stage) {
      ptx::mbarrier_init(&shared->full[stage], 1);
      ptx::mbarrier_init(&shared->empty[stage], static_cast<std::uint32_t>(threads));
    }
    // A block alone tells itself by plain stores and an arrival of each thread: the reads of all of them come before
    // what the next but one row's sums take the place of.
    for (std::uint64_t& barrier : shared->told)
      ptx::mbarrier_init(&barrier, alone ? static_cast<std::uint32_t>(threads) : 1);
    ptx::fence_mbarrier_init();
    for (std::uint32_t i = 0; i < 2 && !alone; ++i) expect_sums(i);
  }
  // All blocks run, and each barrier is ready.
  tile::cluster_sync(ring.cluster);
  if (warp == warps) {
    if (lane == 0) {
      layer_norm_fill_ring<T>(args, rows, ring, shared, stages, sample * args.of_sample + first,
                              (sample + 1) * args.of_sample, before * N, static_cast<std::uint32_t>(packs) * 16);
    }
    return;
  }

  float scale[kPacks][N];
  float dscale[kPacks][N] = {};
  float dbias[kPacks][N] = {};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    fill(scale[k], 1.0f);
    if (args.scale.data != nullptr && thread + k * threads < packs)
      load_parameters(args.scale, sample * args.scale_sample + (before + thread + k * threads) * N, scale[k]);
  }
  const int stage_bytes = ring.block_packs * 32;
  const auto x_of = [&](std::uint32_t stage) { return reinterpret_cast<const T*>(stages + stage * stage_bytes); };

  tile::RingState ahead;  // of the row that is read first, one ahead of what is written
  const auto read = [&]() {
    tile::wait(&shared->full[ahead.stage], ahead.parity);
    const float mean = shared->rows[ahead.stage].mean;
    const float inverse = shared->rows[ahead.stage].inverse;
    const T* const row = x_of(ahead.stage);
    RowSums sums = {0, 0};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int pack = thread + k * threads;
      if (pack < packs) {
        float x[N], dy[N];
        tile::widen_pack<float>(tile::load_pack<T, N>(row + pack * N), x);
        tile::widen_pack<float>(tile::load_pack<T, N>(row + (ring.block_packs + pack) * N), dy);
        add_pack(x, dy, scale[k], mean, inverse, &sums, dscale[k], dbias[k]);
      }
    }
    ahead.next(static_cast<std::uint32_t>(ring.stages));
    return warp_sums(sums);
  };
  const auto tell = [&](std::uint32_t i, const RowSums& sums) {
    __syncwarp();  // all lanes have read the sums that those of the next row take the place of
    if (alone) {
      if (lane == 0) shared->sums[i & 1][warp] = sums;
      ptx::mbarrier_arrive(&shared->told[i & 1]);
    } else if (lane < ring.cluster) {
      std::uint64_t bits;
      static_assert(sizeof bits == sizeof sums, "a warp's sums travel in one store");
      memcpy(&bits, &sums, sizeof bits);
      const auto to = static_cast<std::uint32_t>(lane);
      ptx::st_async(ptx::mapa(ptx::shared_address(&shared->sums[i & 1][rank * warps + warp]), to), bits,
                    ptx::mapa(ptx::shared_address(&shared->told[i & 1]), to));
    }
    __syncwarp();
  };

  tile::RingState state;
  tell(0, read());
  for (std::uint32_t i = 0; i < count; ++i) {
    RowSums next = {0, 0};
    if (i + 1 < count) next = read();
    tile::wait(&shared->told[i & 1], i >> 1 & 1);
    if (thread == 0 && !alone && i + 2 < count) expect_sums(i + 2);
    RowSums sums = {0, 0};
    for (int w = lane; w < ring.cluster * warps; w += 32) {
      sums.first += shared->sums[i & 1][w].first;
      sums.second += shared->sums[i & 1][w].second;
    }
    sums = warp_sums(sums);
    if (i + 1 < count) tell(i + 1, next);

    const LayerNormRingRow& told = shared->rows[state.stage];
    const LayerNormRowGradient gradient(args, told.mean, told.inverse, sums);
    const T* const row = x_of(state.stage);
    T* const out = static_cast<T*>(args.dx) + told.out + before * N;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int pack = thread + k * threads;
      if (pack < packs) {
        float x[N], dy[N];
        tile::widen_pack<float>(tile::load_pack<T, N>(row + pack * N), x);
        tile::widen_pack<float>(tile::load_pack<T, N>(row + (ring.block_packs + pack) * N), dy);
        gradient.of_pack(x, dy, scale[k]);
        tile::store_pack(out + pack * N, tile::narrow_pack<T>(x));
      }
    }
    ptx::mbarrier_arrive(&shared->empty[state.stage]);
    state.next(static_cast<std::uint32_t>(ring.stages));
  }
  ptx::griddepcontrol_launch_dependents();
  if (args.partials == nullptr) return;
  float* const part = args.partials + static_cast<std::int64_t>(part_number) * 2 * args.length + before * N;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int pack = thread + k * threads;
    if (pack < packs) {
#pragma unroll
      for (int i = 0; i < N; i += 4) {
        *reinterpret_cast<float4*>(part + pack * N + i) =
            make_float4(dscale[k][i], dscale[k][i + 1], dscale[k][i + 2], dscale[k][i + 3]);
        *reinterpret_cast<float4*>(part + args.length + pack * N + i) =
            make_float4(dbias[k][i], dbias[k][i + 1], dbias[k][i + 2], dbias[k][i + 3]);
      }
    }
  }
}

}  // namespace gpudnn::kernels
