// The producer of a matrix product: a warp keeps the stages full through TMA. A K-major operand comes as one box of
// rows of 128 bytes of k; an MN-major one as boxes of 128 bytes of m (or n) by a k tile. With multicast each block of
// the pair loads half of the operand that both multiply, into both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/pipeline.cuh"
#include "kernels/gemm/sm90/scheduler.cuh"
#include "kernels/ptx/tma_tile_4d.cuh"

namespace gpudnn::kernels::gemm::sm90 {

struct TileLoad {
  const tile::TensorMap* map;
  std::int32_t row;       // the first m or n
  std::int32_t batch[2];  // outer, inner
  bool mn_major;
  bool shared;  // by the pair
};

// kRows rows (m or n) of one k tile.
template <class I, int kRows>
__device__ __forceinline__ void load_operand(const TileLoad& load, std::int32_t k, std::uint32_t rank,
                                             unsigned char* to, std::uint64_t* full) {
  constexpr std::uint16_t kBoth = 3;
  const std::int32_t outer = load.batch[0];
  const std::int32_t inner = load.batch[1];
  if (!load.mn_major) {
    if (!load.shared) {
      ptx::tma_tile_4d(to, load.map, full, k, load.row, inner, outer);
      return;
    }
    const int half = static_cast<int>(rank) * (kRows / 2);
    ptx::tma_tile_4d_multicast(to + half * kRowBytes, load.map, full, k, load.row + half, inner, outer, kBoth);
    return;
  }
  constexpr int kBoxes = kRows / I::kBoxElements;  // even where they are shared: the plan sees to it
  const int first = load.shared ? static_cast<int>(rank) * (kBoxes / 2) : 0;
  const int end = load.shared ? first + kBoxes / 2 : kBoxes;
  for (int i = first; i < end; ++i) {
    if (load.shared) {
      ptx::tma_tile_4d_multicast(to + i * I::kBoxBytes, load.map, full, load.row + i * I::kBoxElements, k, inner, outer,
                                 kBoth);
    } else {
      ptx::tma_tile_4d(to + i * I::kBoxBytes, load.map, full, load.row + i * I::kBoxElements, k, inner, outer);
    }
  }
}

// How many stages are under way before the block's start.
template <class I>
__device__ __forceinline__ std::uint32_t started_stages(const Params& p, std::uint32_t k_tiles) {
  return !p.starts_early ? 0 : k_tiles < I::kStages ? k_tiles : I::kStages;
}

// By the first warp, ahead of everything: makes the barriers of full stages and starts the copies into the first ones,
// which need nothing else. A kernel begins by fetching its code, 70 to 90 cycles for each 128 bytes even from the L2,
// so this is little code for what is common; produce() goes on from there.
template <class I>
__device__ __forceinline__ void start_loads(const Params& p, Shared<I>& shared) {
  std::uint32_t m = 0;
  const std::uint32_t n = unit_place(p, ptx::clusterid(), &m);
  const std::uint32_t begin = p.splits > 1 ? ptx::cluster_ctarank() * p.k_tiles_per_split : 0;
  const std::uint32_t most = begin < p.k_tiles ? p.k_tiles - begin : 0;
  const std::uint32_t count = started_stages<I>(p, most < p.k_tiles_per_split ? most : p.k_tiles_per_split);
  const auto row_of_a = static_cast<std::int32_t>(I::kSwapAb ? n * I::kTile.bn : m * I::kTile.bm);
  const auto row_of_b = static_cast<std::int32_t>(I::kSwapAb ? m * I::kTile.bm : n * I::kTile.bn);
#pragma unroll 1
  for (std::uint32_t stage = 0; stage < I::kStages; ++stage) {
    if (threadIdx.x != 0) continue;
    std::uint64_t* const full = &shared.full[stage];
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    if (stage >= count) continue;
    ptx::mbarrier_arrive_expect_tx(full, I::kABytes + I::kBBytes);
    const auto k = static_cast<std::int32_t>((begin + stage) * I::kBK);
    ptx::tma_tile_4d(shared.a[stage], &p.a, full, k, row_of_a, 0, 0);
    ptx::tma_tile_4d(shared.b[stage], &p.b, full, k, row_of_b, 0, 0);
  }
}

template <class I>
__device__ __forceinline__ void produce(const Params& p, Shared<I>& shared) {
  constexpr bool kMayBeMnMajor = sizeof(typename I::T) == 2 && !I::kPromotes;
  PipelineState<I::kStages> state;
  bool is_first = true;
  for (Scheduler<I> scheduler(p); scheduler.has_tile(); scheduler.next()) {
    const WorkTile work = scheduler.tile();
    const TileLoad a = {&p.a,
                        static_cast<std::int32_t>(I::kSwapAb ? work.n : work.m),
                        {static_cast<std::int32_t>(p.a_repeat[0].quotient(work.batch[0])),
                         static_cast<std::int32_t>(p.a_repeat[1].quotient(work.batch[1]))},
                        kMayBeMnMajor && p.a_mn_major,
                        pairs_up<I>(p) && p.multicast == Multicast::a};
    const TileLoad b = {&p.b,
                        static_cast<std::int32_t>(I::kSwapAb ? work.m : work.n),
                        {static_cast<std::int32_t>(p.b_repeat[0].quotient(work.batch[0])),
                         static_cast<std::int32_t>(p.b_repeat[1].quotient(work.batch[1]))},
                        kMayBeMnMajor && !I::kSwapAb && p.b_mn_major,
                        pairs_up<I>(p) && p.multicast == Multicast::b};
    const std::uint32_t started = is_first ? started_stages<I>(p, work.k_end - work.k_begin) : 0;
    is_first = false;
    state.skip(started);
    for (std::uint32_t k = work.k_begin + started; k < work.k_end; ++k) {
      tile::wait(&shared.empty[state.stage], state.parity ^ 1);
      std::uint64_t* const full = &shared.full[state.stage];
      if (threadIdx.x == 0) {  // all know what is next: the compiler then keeps it in uniform registers
        ptx::mbarrier_arrive_expect_tx(full, I::kABytes + I::kBBytes);
        const auto depth = static_cast<std::int32_t>(k * I::kBK);
        load_operand<I, I::kBM>(a, depth, scheduler.rank, shared.a[state.stage], full);
        load_operand<I, I::kBN>(b, depth, scheduler.rank, shared.b[state.stage], full);
      }
      state.next();
    }
  }
  // The other block of a pair has released all stages: it sends nothing to this block any more.
  if (!pairs_up<I>(p)) return;
  for (int i = 0; i < I::kStages; ++i, state.next()) tile::wait(&shared.empty[state.stage], state.parity ^ 1);
}

}  // namespace gpudnn::kernels::gemm::sm90
