// The loads of the Hopper direct filter gradient: the thread that starts TMA's copies. See
// direct_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/direct/direct_wgrad_sm90.hpp"
#include "kernels/conv/direct/direct_wgrad_sm90_sum.cuh"
#include "kernels/conv/wgrad_splits.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_5d.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::direct_wgrad {

constexpr int kThreads = 128 * kConsumers + 32;
constexpr int kProducerWarp = 4 * kConsumers;

template <class Element, int kChannelsOfPart>
struct Instance {
  using T = Element;
  static constexpr int kChannels = kChannelsOfPart;
  static constexpr int kN = kTaps * kChannels;
  static constexpr int kSums = kN / 2;  // of a thread
  static constexpr int kPixelBytes = 2 * kChannels;
  static constexpr int kOctetBytes = kOctet * kPixelBytes;
};

struct Barriers {
  std::uint64_t full[kMaxStages];
  std::uint64_t empty[kMaxStages];
};
static_assert(sizeof(Barriers) <= kRingOffset, "the barriers' place");

// Pairs of rows of one strip that follow one another. They take halo_pairs stages more than they are, the first of
// which have no dy.
struct Run {
  std::uint32_t first, count;  // pairs
  std::uint32_t w;             // the strip's first column
  std::uint32_t depth, image;
};
__device__ __forceinline__ Run run_at(const Params& p, std::uint32_t unit, std::uint32_t last) {
  Run run;
  std::uint32_t strip = 0;
  run.image = p.depths.divmod(p.strips.divmod(p.pairs.divmod(unit, &run.first), &strip), &run.depth);
  run.count = min(last - unit, p.pairs.divisor - run.first);
  run.w = strip * p.tile_w;
  return run;
}

__device__ __forceinline__ std::uint32_t octets_of(const Params& p, const Run& run) {
  return min(p.tile_w, p.out_w - run.w) / kOctet;
}
__device__ __forceinline__ bool has_rest(const Params& p, const Run& run) {
  return p.out_w - run.w < p.tile_w && p.out_w % kOctet != 0;
}

__device__ __forceinline__ void make_barriers(const Params& p, Barriers& barriers, const PartPlace& part) {
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) {
    ptx::prefetch_tensormap(&p.x);
    ptx::prefetch_tensormap(&p.dy);
  }
  if (lane < kMaxStages) {
    ptx::mbarrier_init(&barriers.full[lane], 1);
    ptx::mbarrier_init(&barriers.empty[lane], 4 * (p.shares > 1 ? p.shares : part.taps_h));
  }
  ptx::fence_mbarrier_init();
}

// What no copy fills is multiplied by zeros, so it must be finite.
__device__ __forceinline__ void fill_zeros(const Params& p, unsigned char* shared) {
  for (std::uint32_t byte = kRingOffset + threadIdx.x * 16; byte < p.zero_end; byte += kThreads * 16) {
    *reinterpret_cast<uint4*>(shared + byte) = make_uint4(0, 0, 0, 0);
  }
  if (p.zero_end > 0) ptx::fence_proxy_async();
}

// Where a run's copies come from.
struct Source {
  std::int32_t channel, filter;  // the first ones
  std::int32_t x_w, x_h, x_d;    // that the part's first tap sees of column 0 of the strip, row 0 and the depth
  std::int32_t dy_w, dy_d, image;
  std::int32_t rest;  // column of the rest in the strip; negative: there is none
};
__device__ __forceinline__ Source source_of(const Params& p, const PartPlace& part, const Run& run) {
  Source from;
  from.channel = static_cast<std::int32_t>(part.channel);
  from.filter = static_cast<std::int32_t>(part.filter);
  from.dy_w = static_cast<std::int32_t>(run.w);
  from.dy_d = static_cast<std::int32_t>(run.depth);
  from.x_w = from.dy_w + static_cast<std::int32_t>(part.s) * p.dilation[0] - p.pad[0];
  from.x_h = static_cast<std::int32_t>(part.r) * p.dilation[1] - p.pad[1];
  from.x_d = from.dy_d + static_cast<std::int32_t>(part.t) * p.dilation[2] - p.pad[2];
  from.image = static_cast<std::int32_t>(run.image);
  from.rest = has_rest(p, run) ? static_cast<std::int32_t>(octets_of(p, run) * kOctet) : -1;
  return from;
}

__device__ __forceinline__ void load_x_row(const Params& p, const PartPlace& part, const Source& from,
                                           std::uint64_t* full, unsigned char* to, std::int32_t row) {
  ptx::tma_tile_5d(to, &p.x, full, from.channel, from.x_w, row, from.x_d, from.image);
  if (from.rest < 0) return;
  const std::uint32_t octet_bytes = kOctet * 2 * p.part_channels;
  std::int32_t column = from.x_w + from.rest;
  for (std::uint32_t s = 0; s < part.taps_w; ++s) {
    ptx::tma_tile_5d(to + p.rest_offset + s * octet_bytes, &p.x_rest, full, from.channel, column, row, from.x_d,
                     from.image);
    column += p.dilation[0];
  }
}

__device__ __forceinline__ void load_stage(const Params& p, const PartPlace& part, const Source& from,
                                           Barriers& barriers, unsigned char* shared, std::uint32_t stage,
                                           std::uint32_t pair, bool has_dy) {
  std::uint64_t* const full = &barriers.full[stage];
  const std::uint32_t row_bytes = p.x_box_bytes + (from.rest < 0 ? 0 : part.taps_w * p.rest_box_bytes);
  const bool is_first = stage == 0;
  ptx::mbarrier_arrive_expect_tx(full, row_bytes * (is_first ? 3 : 2) + (has_dy ? 2 * p.dy_row_bytes : 0));
  unsigned char* const x = shared + kRingOffset;
  const std::int32_t row = from.x_h + static_cast<std::int32_t>(2 * pair);
  load_x_row(p, part, from, full, x + 2 * stage * p.x_row_bytes, row);
  load_x_row(p, part, from, full, x + (2 * stage + 1) * p.x_row_bytes, row + 1);
  if (is_first) load_x_row(p, part, from, full, x + 2 * p.stages * p.x_row_bytes, row);
  if (!has_dy) return;
  unsigned char* const dy = shared + p.dy_offset + 2 * stage * p.dy_row_bytes;
  const auto dy_row = static_cast<std::int32_t>(2 * (pair - p.halo_pairs));
  ptx::tma_tile_5d(dy, &p.dy, full, from.filter, from.dy_w, dy_row, from.dy_d, from.image);
  ptx::tma_tile_5d(dy + p.dy_row_bytes, &p.dy, full, from.filter, from.dy_w, dy_row + 1, from.dy_d, from.image);
}

__device__ __forceinline__ void produce(const Params& p, Barriers& barriers, unsigned char* shared, const Share& units,
                                        const PartPlace& part) {
  tile::RingState turn;
  for (std::uint32_t unit = units.first; unit < units.last;) {
    const Run run = run_at(p, unit, units.last);
    unit += run.count;
    const Source from = source_of(p, part, run);
    for (std::uint32_t j = 0; j < run.count + p.halo_pairs; ++j) {
      tile::wait(&barriers.empty[turn.stage], turn.parity ^ 1);
      if (threadIdx.x % 32 == 0) {
        load_stage(p, part, from, barriers, shared, turn.stage, run.first + j, j >= p.halo_pairs);
      }
      turn.next(p.stages);
    }
  }
}

}  // namespace gpudnn::kernels::direct_wgrad
