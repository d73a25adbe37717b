// The loads of the Hopper filter gradient of images with few channels: the thread that starts TMA's copies,
// and the warps that make shifted copies of image rows. See small_c_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/small_c/small_c_wgrad_sm90.hpp"
#include "kernels/conv/wgrad_splits.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/tma_tile_4d.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::small_c_wgrad {

template <class Element, int kShape>
struct Instance {
  using T = Element;
  static constexpr int kBlocks = kShapes[kShape].blocks;
  static constexpr int kN = kShapes[kShape].filters;
  static constexpr int kConsumers = kShapes[kShape].consumers;
  static constexpr int kThreads = 128 * (2 + kConsumers);
  static constexpr bool kAhead = kShapes[kShape].ahead;
  // Of what a thread has at first: as many as a multiprocessor has for each, in eights.
  static constexpr int kConsumerRegisters = 200;
  static constexpr int kProducerRegisters = 56;
  static_assert(2 * kProducerRegisters + kConsumers * kConsumerRegisters <=
                    (2 + kConsumers) * (65536 / kThreads / 8 * 8),
                "who takes registers would wait for ever");
  static constexpr int kDyBoxes = dy_boxes(kN);
  static constexpr int kDyBytes = 2 * box_filters(kN);  // of a pixel in a box
};

struct Barriers {
  std::uint64_t full[kMaxStages];
  std::uint64_t empty[kMaxStages];
  std::uint64_t raw_full[kMaxStages];
  std::uint64_t raw_empty[kMaxStages];
};
static_assert(kExpanders == 7, "the other warps of the first two warpgroups");
static_assert(sizeof(Barriers) <= kZeroOffset && kZeroOffset + 16 <= kRingOffset, "the barriers' place");

__device__ __forceinline__ unsigned char* dy_stage(const Params& p, unsigned char* shared, std::uint32_t stage) {
  return shared + kRingOffset + stage * p.stage_bytes;
}

// The first vector of an image row that a strip's windows touch; negative in the padding.
__device__ __forceinline__ std::int32_t first_vector(const Params& p, std::uint32_t strip) {
  return p.first_vector + static_cast<std::int32_t>(strip * p.tile_w * p.pixel_elements / kOctet);
}

// Which vectors of the strip the image row has: from first to last - 1.
struct Inside {
  std::int32_t first, last;
};
__device__ __forceinline__ Inside vectors_inside(const Params& p, std::int32_t vector, std::int32_t row) {
  const bool exists = row >= 0 && row < p.image_rows;
  return {max(-vector, 0),
          exists ? min(static_cast<std::int32_t>(p.strip_vectors.divisor), p.row_vectors - vector) : 0};
}

// --- the producer ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ void load_group(const Params& p, unsigned char* raw, std::uint64_t* full,
                                           std::int32_t vector, std::int32_t row, std::uint32_t image) {
  std::uint32_t bytes = 0;
  for (std::uint32_t r = 0; r < p.group_rows; ++r) {
    const Inside in = vectors_inside(p, vector, row + static_cast<std::int32_t>(r));
    if (in.first < in.last) bytes += static_cast<std::uint32_t>(in.last - in.first) * 16;
  }
  ptx::mbarrier_arrive_expect_tx(full, bytes);
  const char* const from = static_cast<const char*>(p.x) + image * p.image_step;
  for (std::uint32_t r = 0; r < p.group_rows; ++r) {
    const std::int32_t at = row + static_cast<std::int32_t>(r);
    const Inside in = vectors_inside(p, vector, at);
    if (in.first >= in.last) continue;
    ptx::bulk_copy(raw + (r * p.strip_vectors.divisor + static_cast<std::uint32_t>(in.first)) * 16,
                   from + at * p.row_step + static_cast<std::int64_t>(vector + in.first) * 16,
                   static_cast<std::uint32_t>(in.last - in.first) * 16, full);
  }
}

// Each row of dy with the groups that its window sees and the row before has not brought: all of them where a strip
// begins.
template <class I>
__device__ __forceinline__ void produce(const Params& p, Barriers& barriers, unsigned char* shared) {
  const Share share = share_of_block(p);
  const auto filter = static_cast<std::int32_t>(p.octet_parts.quotient(share.part)) * I::kN;
  Place at = {};
  tile::RingState dy;
  tile::RingState raw;
  for (std::uint32_t i = 0; i < share.count(); ++i, ++at.row) {
    const bool begins = i == 0 || at.row == p.rows.divisor;
    if (begins) at = place_of(p, share.first + i);
    tile::wait(&barriers.empty[dy.stage], dy.parity ^ 1);
    if (threadIdx.x == 0) {
      std::uint64_t* const full = &barriers.full[dy.stage];
      ptx::mbarrier_arrive_expect_tx(full, p.stage_bytes);
#pragma unroll
      for (int b = 0; b < I::kDyBoxes; ++b) {
        ptx::tma_tile_4d(dy_stage(p, shared, dy.stage) + static_cast<std::uint32_t>(b) * p.tile_w * I::kDyBytes, &p.dy,
                         full, filter + b * box_filters(I::kN), static_cast<std::int32_t>(at.strip * p.tile_w),
                         static_cast<std::int32_t>(at.row), static_cast<std::int32_t>(at.image));
      }
    }
    for (std::uint32_t g = begins ? 0 : p.groups - 1; g < p.groups; ++g) {
      tile::wait(&barriers.raw_empty[raw.stage], raw.parity ^ 1);
      if (threadIdx.x == 0) {
        load_group(p, shared + p.raw_offset + raw.stage * p.raw_bytes, &barriers.raw_full[raw.stage],
                   first_vector(p, at.strip), static_cast<std::int32_t>(at.row + g) * p.stride_h - p.pad_h, at.image);
      }
      raw.next(p.raws);
    }
    dy.next(p.stages.divisor);
  }
}

// --- expanders -------------------------------------------------------------------------------------------------------

// 8 elements from element `shift` of two vectors on.
__device__ __forceinline__ uint4 shifted(const uint4& a, const uint4& b, std::uint32_t shift) {
  const bool four = (shift & 4) != 0;
  const bool two = (shift & 2) != 0;
  const std::uint32_t bits = (shift & 1) * 16;
  const std::uint32_t s0 = four ? a.z : a.x;
  const std::uint32_t s1 = four ? a.w : a.y;
  const std::uint32_t s2 = four ? b.x : a.z;
  const std::uint32_t s3 = four ? b.y : a.w;
  const std::uint32_t s4 = four ? b.z : b.x;
  const std::uint32_t s5 = four ? b.w : b.y;
  const std::uint32_t t0 = two ? s1 : s0;
  const std::uint32_t t1 = two ? s2 : s1;
  const std::uint32_t t2 = two ? s3 : s2;
  const std::uint32_t t3 = two ? s4 : s3;
  const std::uint32_t t4 = two ? s5 : s4;
  return make_uint4(__funnelshift_r(t0, t1, bits), __funnelshift_r(t1, t2, bits), __funnelshift_r(t2, t3, bits),
                    __funnelshift_r(t3, t4, bits));
}

// All copies of a group. Vector i of an image row and the next one give vector i - k of copy c, where the copy begins k
// vectors and some elements after the strip.
template <class I>
__device__ __forceinline__ void expand_group(const Params& p, const unsigned char* raw, unsigned char* slot,
                                             std::int32_t vector, std::int32_t row) {
  const std::uint32_t items = p.group_rows * p.strip_vectors.divisor;
#pragma unroll 1
  for (std::uint32_t item = threadIdx.x - 32; item < items; item += 32 * kExpanders) {
    std::uint32_t i = 0;
    const std::uint32_t r = p.strip_vectors.divmod(item, &i);
    const Inside in = vectors_inside(p, vector, row + static_cast<std::int32_t>(r));
    const auto at = static_cast<std::int32_t>(i);
    const auto* const from = reinterpret_cast<const uint4*>(raw) + item;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    const uint4 a = at >= in.first && at < in.last ? from[0] : zero;
    const uint4 b = at + 1 >= in.first && at + 1 < in.last ? from[1] : zero;
    std::uint32_t begin = p.first_shift;
    unsigned char* to = slot + r * p.copy_vectors * 16;
#pragma unroll 1
    for (std::uint32_t c = 0; c < p.copies; ++c) {
      const std::uint32_t to_vector = i - begin / kOctet;  // wraps around where there is none
      if (to_vector < p.copy_vectors) reinterpret_cast<uint4*>(to)[to_vector] = shifted(a, b, begin % kOctet);
      begin += p.pixel_elements;
      to += p.copy_bytes;
    }
  }
}

// A place in the ring of groups is free when the row some rows before is done, as the ring's length has it, but for
// groups that remain from the end of the strip before the last.
template <class I>
__device__ __forceinline__ void expand(const Params& p, Barriers& barriers, unsigned char* shared) {
  const Share share = share_of_block(p);
  const auto wait_for_row = [&](std::uint32_t row) {
    std::uint32_t stage = 0;
    const std::uint32_t round = p.stages.divmod(row, &stage);
    tile::wait(&barriers.empty[stage], round & 1u);
  };
  Place at = {};
  tile::RingState raw;
  std::uint32_t stage = 0;
  std::uint32_t slot = 0;
  std::uint32_t strip_begin = 0;
  for (std::uint32_t i = 0; i < share.count(); ++i, ++at.row) {
    const bool begins = i == 0 || at.row == p.rows.divisor;
    if (i >= kRowsAhead) wait_for_row(i - kRowsAhead);
    if (begins) {
      at = place_of(p, share.first + i);
      // A row that is longer ago is done, and the wait could not tell its phase from a later one.
      if (strip_begin > 0 && strip_begin + kRowsAhead > i + 1) wait_for_row(strip_begin - 1);
      strip_begin = i;
    }
    for (std::uint32_t g = begins ? 0 : p.groups - 1; g < p.groups; ++g) {
      tile::wait(&barriers.raw_full[raw.stage], raw.parity);
      expand_group<I>(p, shared + p.raw_offset + raw.stage * p.raw_bytes, shared + p.slot_offset + slot * p.slot_bytes,
                      first_vector(p, at.strip), static_cast<std::int32_t>(at.row + g) * p.stride_h - p.pad_h);
      ptx::mbarrier_arrive(&barriers.raw_empty[raw.stage]);
      raw.next(p.raws);
      slot = slot + 1 == p.slots ? 0 : slot + 1;
    }
    ptx::mbarrier_arrive(&barriers.full[stage]);
    stage = stage + 1 == p.stages.divisor ? 0 : stage + 1;
  }
}

}  // namespace gpudnn::kernels::small_c_wgrad
