// Data gradient of images with few channels for Hopper: wgmma with the filter as the first operand and rows of dy, as
// they lie in shared memory, as the second.
//
// With stride t, pixel h of dx meets tap r and row p of dy where h + pad = p * t + r. Let i = (h + pad) / t and
// a = (h + pad) % t: the taps are r = a + t * u, and p = i - u. The same holds along w with j, b, s, v and q. So row p
// of dy adds to the rows i = p + u of positions, u below taps_u, and all of these sums are one product:
//
//   D[(u, a, b, c), j] += sum over v and filters k of  F[(u, a, b, c), (v, k)] * dy[p, j - v, k]
//
// A warpgroup walks down the rows of dy and keeps the sums of taps_u rows of positions, each in a slot of `group` =
// t * t * channels rows of D. Row i = p is complete after row p: its slot is stored, cleared, and becomes row
// p + taps_u. What a slot means moves on by one u with each row, so the filter lies in shared memory as
// 2 * taps_u - 1 groups in the cyclic order of u, and a row's products begin at the group that slot 0 needs. Taps that
// a stride phase does not have are zeros.
//
// dy is read once from memory, plus taps_u - 1 rows for each part that an image is cut into, and each row of it is read
// taps_v times from shared memory. For 7 x 7 taps of stride 2 and 3 channels D has 48 of 64 rows in use: a row of 112
// pixels and 64 filters takes 16 products of 60 cycles where its bytes take about 900 cycles of a multiprocessor's part
// of the memory rate.
//
// Data flow of a warpgroup, each with a part of the rows of all images, and shared memory of its own but for the
// filter:
//   dy         a thread of the last warp starts the copies of rows to come: boxes of 128 bytes of filters and the
//              tile's columns, zeros outside of the image, in the swizzle of 128 bytes. Column v of the taps is the
//              same box, read from another row on.
//   filter     by all threads, once: cleared, then each element goes to its places; TF32 is rounded to nearest.
//   sums       as floats through shared memory into rows of dx, as they lie in memory; while the next row's products
//              run, they are stored 16 bytes at a time.
//
// A zero of the filter times an infinite dy, which this dx does not see, would leave a NaN: such sums are done again,
// term by term.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/small_c/small_c_dgrad_sm90_epilogue.cuh"
#include "kernels/conv/small_c/small_c_dgrad_sm90_filter.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_5d.cuh"
#include "kernels/ptx/wgmma_positions.cuh"
#include "kernels/tile/instances.hpp"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/shared_memory.hpp"
#include "kernels/tile/stage_ring.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::small_c_dgrad {

struct Barriers {
  std::uint64_t full[kMaxWarpgroups][kMaxStages];
};
static_assert(sizeof(Barriers) <= kBarrierBytes, "the barriers' place");

// The first of each warpgroup.
enum NamedBarrier : int { kRowDone = 1, kSumsStaged = 1 + kMaxWarpgroups, kLastStaged = 1 + 2 * kMaxWarpgroups };

// --- the work --------------------------------------------------------------------------------------------------------

// Rows i of positions of an image, within a tile of columns.
struct Segment {
  int n, column, i_begin, i_end;
};
// Rows are numbered over all images and column tiles. Takes those from *cursor that belong to one image.
__device__ __forceinline__ Segment next_segment(const Params& p, std::uint32_t* cursor, std::uint32_t end) {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
  const std::uint32_t n = p.column_tiles.divmod(p.rows.divmod(*cursor, &row), &column);
  const std::uint32_t count = min(p.rows.divisor - row, end - *cursor);
  *cursor += count;
  const int first = p.first_i + static_cast<int>(row);
  return {static_cast<int>(n), static_cast<int>(column), first, first + static_cast<int>(count)};
}

// Of dy, that adds to one of them. The last one is i_end - 1, which may lie below dy: zeros then.
__device__ __forceinline__ int first_row(const Params& p, const Segment& s) {
  return max(s.i_begin - (p.taps_u - 1), 0);
}

// A warpgroup's share of the rows.
struct Share {
  std::uint32_t begin, end;
};
__device__ __forceinline__ Share share_of(const Params& p, std::uint32_t warpgroup) {
  const std::uint32_t streams = gridDim.x * p.warpgroups;
  const std::uint64_t stream = blockIdx.x * p.warpgroups + warpgroup;
  return {static_cast<std::uint32_t>(stream * p.all_rows / streams),
          static_cast<std::uint32_t>((stream + 1) * p.all_rows / streams)};
}

// --- rows of dy ------------------------------------------------------------------------------------------------------

// Where the copies have got to.
struct Loads {
  std::uint32_t cursor, end;
  int n = 0, column = 0;
  int row = 0, row_end = 0;  // of dy
  std::uint32_t block = 0;   // of filters
  std::uint32_t stage = 0;
};

// Starts the next copy, if there is one.
__device__ __forceinline__ void load_next(const Params& p, Loads* loads, std::uint64_t* full, unsigned char* stages) {
  while (loads->row >= loads->row_end) {
    if (loads->cursor >= loads->end) return;
    const Segment s = next_segment(p, &loads->cursor, loads->end);
    loads->n = s.n;
    loads->column = (p.first_j + s.column * p.tile_w) - (p.taps_v - 1);
    loads->row = first_row(p, s);
    loads->row_end = s.i_end;
  }
  std::uint64_t* const barrier = full + loads->stage;
  ptx::mbarrier_arrive_expect_tx(barrier, p.load_bytes);
  ptx::tma_tile_5d(stages + loads->stage * p.stage_bytes, &p.dy_map, barrier,
                   static_cast<std::int32_t>(loads->block) * p.filters_of_block, loads->column, loads->row, 0,
                   loads->n);
  if (++loads->stage == p.stages) loads->stage = 0;
  if (++loads->block == p.filter_blocks) {
    loads->block = 0;
    ++loads->row;
  }
}

__device__ __forceinline__ void load_row(const Params& p, Loads* loads, std::uint64_t* full, unsigned char* stages) {
#pragma unroll 1
  for (std::uint32_t block = 0; block < p.filter_blocks; ++block) load_next(p, loads, full, stages);
}

// --- products --------------------------------------------------------------------------------------------------------

constexpr std::uint32_t kStep = 32 / 16;  // descriptors count in 16 bytes
constexpr std::uint32_t kRow = kRowBytes / 16;

template <class I, int kSteps>
__device__ __forceinline__ void multiply_column(std::uint64_t filter, std::uint64_t dy, Sums<I>& sum) {
#pragma unroll
  for (std::uint32_t step = 0; step < kSteps; ++step) {
#pragma unroll
    for (std::uint32_t block = 0; block < I::kBlocks; ++block) {
      ptx::wgmma_positions<typename I::T, I::kN>(sum[block], filter + step * kStep + block * 64 * kRow,
                                                 dy + step * kStep);
    }
  }
}

// One block of filters: all columns of taps. Between rounds of a loop the products pause, so there is none for four
// columns.
template <class I>
__device__ __forceinline__ void multiply_block(const Params& p, std::uint64_t filter, std::uint64_t dy,
                                               std::uint32_t steps, Sums<I>& sum) {
  const std::uint32_t panel = p.panel_bytes / 16;
  if (steps == 4 && p.taps_v == 4) {
    ptx::wgmma_fence();
#pragma unroll
    for (std::uint32_t v = 0; v < 4; ++v) multiply_column<I, 4>(filter + v * panel, dy - v * kRow, sum);
  } else if (steps == 4) {
    std::int32_t left = p.taps_v;
#pragma unroll 1
    do {
      ptx::wgmma_fence();
      multiply_column<I, 4>(filter, dy, sum);
      filter += panel;
      dy -= kRow;
    } while (--left > 0);
  } else {
    std::uint32_t left = static_cast<std::uint32_t>(p.taps_v) * steps;
    std::uint32_t step = 0;
#pragma unroll 1
    do {
      ptx::wgmma_fence();
      multiply_column<I, 1>(filter + step * kStep, dy + step * kStep, sum);
      const bool ends = ++step == steps;
      filter += ends ? panel : 0;
      dy -= ends ? kRow : 0;
      step = ends ? 0 : step;
    } while (--left > 0);
  }
  ptx::wgmma_commit_group();
}

struct Ring {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
};

// A row of dy, for slot 0 from filter row `start` on. The products are under way when it returns.
template <class I>
__device__ __forceinline__ void multiply_row(const Params& p, std::uint64_t* full, const unsigned char* stages,
                                             std::uint64_t filter, Ring* ring, Sums<I>& sum) {
  const std::uint32_t panels = static_cast<std::uint32_t>(p.taps_v) * (p.panel_bytes / 16);
  std::uint32_t block = 0;
#pragma unroll 1
  do {
    tile::wait(full + ring->stage, ring->parity);
    const std::uint64_t dy = tile::operand_descriptor<kRowBytes>(stages + ring->stage * p.stage_bytes, 16) +
                             static_cast<std::uint32_t>(p.taps_v - 1) * kRow;
    multiply_block<I>(p, filter, dy, block + 1 == p.filter_blocks ? p.last_steps : 4u, sum);
    filter += panels;
    if (++ring->stage == p.stages) {
      ring->stage = 0;
      ring->parity ^= 1;
    }
  } while (++block < p.filter_blocks);
}

// --- the kernel ------------------------------------------------------------------------------------------------------

// One warpgroup's walk over its share.
template <class I>
__device__ __forceinline__ void walk(const Params& p, const Share& share, std::uint64_t* full, unsigned char* stages,
                                     std::uint64_t filter, unsigned char* staging, int warp, Loads* loads) {
  const int warpgroup = warp / 4;
  const bool loads_rows = threadIdx.x % kWarpgroup == kWarpgroup - 32;
  Sums<I> sum;
  clear<I>(sum);
  Ring ring;
  // The copies into a row's stages start while the next row is multiplied, unless that one needs them.
  const bool loads_early = p.stages < 2 * p.filter_blocks;
  bool has_free_stages = false;
  Place staged = {};
  Vectors<I> vectors = {};
  bool is_staged = false;
  const std::uint32_t group = static_cast<std::uint32_t>(p.group);
  const std::uint32_t all_slots = group * static_cast<std::uint32_t>(p.taps_u);
  std::uint32_t cursor = share.begin;
#pragma unroll 1
  while (cursor < share.end) {
    const Segment s = next_segment(p, &cursor, share.end);
    std::uint32_t slot = 0;  // first row of that of row `row` of positions
#pragma unroll 1
    for (int row = first_row(p, s); row < s.i_end; ++row) {
      multiply_row<I>(p, full, stages, filter + (slot == 0 ? 0 : all_slots - slot) * kRow, &ring, sum);
      // While they are under way, the row before is stored.
      ptx::barrier_sync(kSumsStaged + warpgroup, kWarpgroup);
      if (loads_rows && has_free_stages) load_row(p, loads, full, stages);
      if (is_staged) store_row<I>(p, staged, staging, vectors);
      ptx::wgmma_wait_group<0>();
      ptx::barrier_sync(kRowDone + warpgroup, kWarpgroup);  // with the row's stages, and with the staging area
      if (loads_rows && loads_early) load_row(p, loads, full, stages);
      has_free_stages = !loads_early;
      if (row == s.i_begin) vectors = vectors_of<I>(p, s.column);
      is_staged = row >= s.i_begin;
      staged = {s.n, row, s.column};
      finish_slot<I>(p, slot, static_cast<std::uint32_t>(warp % 4), is_staged, staging, sum);
      slot += group;
      if (slot == all_slots) slot = 0;
    }
    clear<I>(sum);  // of rows that belong to others
  }
  ptx::barrier_sync(kLastStaged + warpgroup, kWarpgroup);
  if (is_staged) store_row<I>(p, staged, staging, vectors);
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) small_c_dgrad_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(kAlignment) unsigned char shared[];
  auto& barriers = *reinterpret_cast<Barriers*>(shared);
  // Told to the compiler to be the same in all lanes: else it takes the walk for a divergent one, and waits for each
  // product.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int warpgroup = warp / 4;
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&p.dy_map);
    for (std::uint32_t i = 0; i < p.warpgroups * kMaxStages; ++i) ptx::mbarrier_init(&barriers.full[0][0] + i, 1);
    ptx::fence_mbarrier_init();
  }
  if ((ptx::shared_address(shared) & (kAlignment - 1)) != 0) __trap();  // the swizzle counts on it
  __syncthreads();
  const Share share = share_of(p, static_cast<std::uint32_t>(warpgroup));
  std::uint64_t* const full = barriers.full[warpgroup];
  unsigned char* const stages =
      shared + kBarrierBytes + static_cast<std::uint32_t>(warpgroup) * p.stages * p.stage_bytes;
  Loads loads = {share.begin, share.end};
  if (threadIdx.x % kWarpgroup == kWarpgroup - 32) {
    for (std::uint32_t i = 0; i < p.stages; ++i) load_next(p, &loads, full, stages);
  }
  unsigned char* const filter = shared + p.filter_offset;
  build_filter<typename I::T>(p, filter, shared + p.staging_offset);
  unsigned char* const staging = shared + p.staging_offset + static_cast<std::uint32_t>(warpgroup) * p.staging_bytes;
  walk<I>(p, share, full, stages, tile::operand_descriptor<kRowBytes>(filter, 16), staging, warp, &loads);
}

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  tile::allow_shared_memory<&small_c_dgrad_sm90<I>>(tile::kAllThatABlockMayHave);
  tile::launch_kernel(&small_c_dgrad_sm90<I>, {blocks, params.warpgroups * kWarpgroup, params.shared_bytes}, stream,
                      params);
}

template <class T>
LaunchShape launch_of(int shape) {
  return tile::entry_at<kShapeCount>(
      shape, [](auto instance) -> LaunchShape { return &launch_instance<Instance<T, instance()>>; });
}

}  // namespace gpudnn::kernels::small_c_dgrad
