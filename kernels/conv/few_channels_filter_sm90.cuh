// Filter gradient of images with few channels for Hopper: wgmma with the image's side in registers.
//
//   dw[filter, r, s, c] = sum over pixels (n, p, q) of dy[n, p, q, filter] * x[n, p u + r - pad, q v + s - pad, c]
//
// as D[tap, filter] += A[tap, pixel] * B[pixel, filter]. B is dy as it lies, filters innermost, by the copy engine. A
// is never stored: of a filter row r the taps (s, c) of a pixel are neighbours in the image row, so ldmatrix takes rows
// of 8 taps of 8 pixels and transposes them into wgmma's fragments. A filter row's S C taps are rounded up to whole
// octets, whose additional sums nobody stores.
//
// ldmatrix wants rows at multiples of 16 bytes, but pixels follow at v C elements. So shared memory holds an image row
// in 16 / gcd(16, 2 v C) copies, shifted against one another such that copy c is aligned for the pixels with q % copies
// == c; a lane reads the copy of its own pixel. Copies begin in different banks, as 8 pixels in a row should lie. The
// copy engine brings rows as they lie in memory (its coordinates along a row go by 16 bytes too), and three warps
// expand them. Padding is zeros. Pixels beyond the end of a row of y are read from zeros, since x may be infinite where
// they would look.
//
// A block goes down rows of strips of y. It keeps the image rows of a window in a ring: each further row of y brings as
// many image rows as the vertical stride, a group, and one row of dy.
//   producer    one thread starts the copies of a row of dy and of its group of image rows.          -> full, raw_full
//   expanders   three warps make the copies of a group, some rows ahead of the products.             -> full, raw_empty
//   consumers   warpgroups take the steps of 16 pixels in turn, all with all the taps of the block.  -> empty
// In the end the warpgroups' sums are added up in shared memory, and the blocks' by a second kernel, in order.
//
// Bytes: dy once, x once. For each step of 16 pixels, 64 taps and 64 filters: 32 cycles of multiplication, 2 KiB of
// fragments and 2 KiB of dy from shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "kernels/conv/few_channels_filter_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_4d.cuh"
#include "kernels/ptx/wgmma_registers.cuh"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/shared_memory.cuh"
#include "kernels/tile/stage_ring.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::few_channels_filter {

constexpr int kSumsBarrier = 1;

template <class Element, int kShape>
struct Instance {
  using T = Element;
  static constexpr int kBlocks = kShapes[kShape].blocks;
  static constexpr int kN = kShapes[kShape].filters;
  static constexpr int kConsumers = kShapes[kShape].consumers;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kConsumerRegisters = kConsumers == 3 ? 152 : 216;
  static constexpr int kProducerRegisters = kConsumers == 3 ? 56 : 80;
  static constexpr int kDyBoxes = dy_boxes(kN);
  static constexpr int kDyBytes = 2 * box_filters(kN);  // of a pixel in a box
};

struct Barriers {
  std::uint64_t full[kMostStages];
  std::uint64_t empty[kMostStages];
  std::uint64_t raw_full[kMostStages];
  std::uint64_t raw_empty[kMostStages];
};
static_assert(kExpanders == 3, "the first warpgroup's other warps");
static_assert(sizeof(Barriers) <= kZeroOffset && kZeroOffset + 16 <= kRingOffset, "the barriers' place");

// The block's rows: units first to last - 1, of one part of the taps and filters.
struct Share {
  std::uint32_t part, first, last;
};
__device__ __forceinline__ Share share_of_block(const Params& p) {
  Share share;
  const std::uint32_t split = p.parts.divmod(blockIdx.x, &share.part);
  share.first = static_cast<std::uint32_t>(static_cast<std::uint64_t>(p.units) * split / p.splits);
  share.last = static_cast<std::uint32_t>(static_cast<std::uint64_t>(p.units) * (split + 1) / p.splits);
  return share;
}

// A row of a strip.
struct Place {
  std::uint32_t row, strip, image;
};
__device__ __forceinline__ Place place_of(const Params& p, std::uint32_t unit) {
  Place at;
  at.image = p.strips.divmod(p.rows.divmod(unit, &at.row), &at.strip);
  return at;
}

__device__ __forceinline__ unsigned char* dy_stage(const Params& p, unsigned char* shared, std::uint32_t stage) {
  return shared + kRingOffset + stage * p.stage_bytes;
}

// A place in a ring whose length is known at launch only.
struct RingTurn {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next(std::uint32_t stages) {
    const bool wraps = ++stage == stages;
    stage = wraps ? 0 : stage;
    parity ^= wraps ? 1u : 0u;
  }
};

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
  const std::uint32_t count = share.last - share.first;
  Place at = {};
  RingTurn dy;
  RingTurn raw;
  for (std::uint32_t i = 0; i < count; ++i, ++at.row) {
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
__device__ __forceinline__ void expand(const Params& p, Barriers& barriers, unsigned char* shared) {
  const Share share = share_of_block(p);
  const std::uint32_t count = share.last - share.first;
  const auto wait_for_row = [&](std::uint32_t row) {
    std::uint32_t stage = 0;
    const std::uint32_t round = p.stages.divmod(row, &stage);
    tile::wait(&barriers.empty[stage], round & 1u);
  };
  Place at = {};
  RingTurn raw;
  std::uint32_t stage = 0;
  std::uint32_t slot = 0;
  std::uint32_t strip_begin = 0;
  for (std::uint32_t i = 0; i < count; ++i, ++at.row) {
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
      expand_group(p, shared + p.raw_offset + raw.stage * p.raw_bytes, shared + p.slot_offset + slot * p.slot_bytes,
                   first_vector(p, at.strip), static_cast<std::int32_t>(at.row + g) * p.stride_h - p.pad_h);
      __syncwarp();
      if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&barriers.raw_empty[raw.stage]);
      raw.next(p.raws);
      slot = slot + 1 == p.slots ? 0 : slot + 1;
    }
    ptx::mbarrier_arrive(&barriers.full[stage]);
    stage = stage + 1 == p.stages.divisor ? 0 : stage + 1;
  }
}

// --- consumers -------------------------------------------------------------------------------------------------------

// What a lane reads for ldmatrix: matrix lane / 8 of a warp's 16 taps by 16 pixels has octet (lane / 8) % 2 and the 8
// pixels (lane / 16).
template <class I>
struct LanePlace {
  std::uint32_t group[I::kBlocks];   // of the row's window
  std::uint32_t offset[I::kBlocks];  // of the lane's first pixel in the group
  std::uint32_t pixel;               // of a step
};
template <class I>
__device__ __forceinline__ LanePlace<I> lane_place(const Params& p, std::uint32_t part) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32 % 4;
  std::uint32_t octet_part = 0;
  p.octet_parts.divmod(part, &octet_part);
  LanePlace<I> place;
  place.pixel = lane % 8 + lane / 16 * 8;
  const std::uint32_t copy = place.pixel & (p.copies - 1);
  const std::uint32_t along = (place.pixel - copy) * p.pixel_elements * 2;
#pragma unroll
  for (std::uint32_t b = 0; b < I::kBlocks; ++b) {
    const std::uint32_t octet = (octet_part * I::kBlocks + b) * 8 + warp * 2 + lane / 8 % 2;
    std::uint32_t inside = 0;
    std::uint32_t r = p.row_octets.divmod(octet, &inside);
    if (r >= p.taps_h) r = inside = 0;  // sums that are not stored
    place.group[b] = r / p.group_rows;
    place.offset[b] =
        copy * p.copy_bytes + ((r - place.group[b] * p.group_rows) * p.copy_vectors + inside) * (kOctet * 2) + along;
  }
  return place;
}

// The fragments of a step: `from` are the lane's first pixels in the row, `left` the row's pixels from the step on.
template <class I>
__device__ __forceinline__ void load_step(const Params& p, const std::uint32_t (&from)[I::kBlocks], std::uint32_t zeros,
                                          std::uint32_t pixel, std::uint32_t step, std::uint32_t columns,
                                          std::uint32_t (&a)[I::kBlocks][4]) {
  const bool exists = step * kStepPixels + pixel < columns;
  const std::uint32_t along = step * kStepPixels * 2 * p.pixel_elements;
#pragma unroll
  for (int b = 0; b < I::kBlocks; ++b) ptx::ldmatrix_x4_trans(exists ? from[b] + along : zeros, a[b]);
}

template <class I>
__device__ __forceinline__ void multiply_step(std::uint64_t dy, std::uint32_t step,
                                              const std::uint32_t (&a)[I::kBlocks][4],
                                              float (&sum)[I::kBlocks][I::kN / 2]) {
  const std::uint64_t b_operand = dy + step * (kStepPixels * I::kDyBytes >> 4);
#pragma unroll
  for (int b = 0; b < I::kBlocks; ++b) ptx::wgmma_registers<typename I::T, I::kN>(sum[b], a[b], b_operand);
}

// The consumer's steps of a row, from `step` on, two at a time. Returns the first one after the row.
template <class I>
__device__ __forceinline__ std::uint32_t multiply_row(const Params& p, const std::uint32_t (&from)[I::kBlocks],
                                                      std::uint32_t zeros, std::uint32_t pixel, std::uint64_t dy,
                                                      std::uint32_t step, std::uint32_t columns,
                                                      float (&sum)[I::kBlocks][I::kN / 2]) {
  const std::uint32_t steps = (columns + kStepPixels - 1) / kStepPixels;
#pragma unroll 1
  for (; step + I::kConsumers < steps; step += 2 * I::kConsumers) {
    std::uint32_t a[2][I::kBlocks][4];
    load_step<I>(p, from, zeros, pixel, step, columns, a[0]);
    load_step<I>(p, from, zeros, pixel, step + I::kConsumers, columns, a[1]);
    ptx::wgmma_fence();
    multiply_step<I>(dy, step, a[0], sum);
    multiply_step<I>(dy, step + I::kConsumers, a[1], sum);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
  }
  if (step < steps) {
    std::uint32_t a[I::kBlocks][4];
    load_step<I>(p, from, zeros, pixel, step, columns, a);
    ptx::wgmma_fence();
    multiply_step<I>(dy, step, a, sum);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    step += I::kConsumers;
  }
  return step;
}

template <class I>
__device__ __forceinline__ void multiply(const Params& p, Barriers& barriers, unsigned char* shared, int consumer,
                                         const Share& share, float (&sum)[I::kBlocks][I::kN / 2]) {
  const LanePlace<I> place = lane_place<I>(p, share.part);
  const std::uint32_t zeros = ptx::shared_address(shared + kZeroOffset);
  const std::uint32_t slots = ptx::shared_address(shared + p.slot_offset);
  const std::uint64_t dy = tile::operand_descriptor<I::kDyBytes>(dy_stage(p, shared, 0), p.tile_w * I::kDyBytes);
  const std::uint32_t count = share.last - share.first;
  Place at = {};
  std::uint32_t columns = 0;
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
  std::uint32_t slot = 0;
  auto step = static_cast<std::uint32_t>(consumer);
#pragma unroll 1
  for (std::uint32_t i = 0; i < count; ++i, ++at.row) {
    if (i == 0 || at.row == p.rows.divisor) {
      at = place_of(p, share.first + i);
      columns = min(p.tile_w, p.out_w - at.strip * p.tile_w);
      if (i > 0) slot += p.groups - 1;
      slot -= slot >= p.slots ? p.slots : 0;
    }
    std::uint32_t from[I::kBlocks];
#pragma unroll
    for (int b = 0; b < I::kBlocks; ++b) {
      const std::uint32_t mine = slot + place.group[b];
      from[b] = slots + (mine >= p.slots ? mine - p.slots : mine) * p.slot_bytes + place.offset[b];
    }
    tile::wait(&barriers.full[stage], parity);
    step = multiply_row<I>(p, from, zeros, place.pixel, dy + (stage * p.stage_bytes >> 4), step, columns, sum) -
           (columns + kStepPixels - 1) / kStepPixels;
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&barriers.empty[stage]);
    slot = slot + 1 == p.slots ? 0 : slot + 1;
    parity ^= stage + 1 == p.stages.divisor ? 1u : 0u;
    stage = stage + 1 == p.stages.divisor ? 0 : stage + 1;
  }
}

// --- the way out -----------------------------------------------------------------------------------------------------

// Rounds and stores one sum: tap `row` of the part, filter `column`.
template <class T>
__device__ __forceinline__ void store_sum(const Params& p, std::uint32_t first_octet, std::uint32_t row,
                                          std::uint32_t filter, float sum) {
  std::uint32_t octet = 0;
  std::uint32_t r = p.row_octets.divmod(first_octet + row / kOctet, &octet);
  const std::uint32_t tap = octet * kOctet + row % kOctet;
  if (r >= p.taps_h || tap >= p.row_taps || filter >= p.filters) return;
  std::uint32_t c = 0;
  std::uint32_t s = p.channels.divmod(tap, &c);
  if (p.mirrored) {
    r = p.taps_h - 1 - r;
    s = p.taps_w - 1 - s;
  }
  T* const to = static_cast<T*>(p.dw) + (filter * p.step_k + c * p.step_c + r * p.step_r + s * p.step_s);
  float value = p.alpha * sum;
  if (p.beta != 0) value += p.beta * tile::widen<float>(*to);
  *to = tile::narrow<T>(value);
}

// The four sums of quad number `quad` of a part, in the order in which threads keep them: two neighbouring filters, and
// the same 8 taps further.
template <class T>
__device__ __forceinline__ void store_quad(const Params& p, int blocks, int filters, std::uint32_t part,
                                           std::uint32_t quad, const float4& sum) {
  std::uint32_t octet_part = 0;
  const std::uint32_t filter_block = p.octet_parts.divmod(part, &octet_part);
  const auto groups = static_cast<std::uint32_t>(filters) / 8;
  const std::uint32_t thread = quad % 128;
  const std::uint32_t row = quad / 128 / groups * 64 + thread / 32 * 16 + thread % 32 / 4;
  const std::uint32_t filter =
      filter_block * static_cast<std::uint32_t>(filters) + quad / 128 % groups * 8 + thread % 4 * 2;
  const std::uint32_t first_octet = octet_part * static_cast<std::uint32_t>(blocks) * 8;
  store_sum<T>(p, first_octet, row, filter, sum.x);
  store_sum<T>(p, first_octet, row, filter + 1, sum.y);
  store_sum<T>(p, first_octet, row + 8, filter, sum.z);
  store_sum<T>(p, first_octet, row + 8, filter + 1, sum.w);
}

__device__ __forceinline__ void add_to(float4* sum, const float4& more) {
  sum->x += more.x;
  sum->y += more.y;
  sum->z += more.z;
  sum->w += more.w;
}

// Adds up the consumers' sums where the rings were, and stores them, or keeps them for the second kernel.
template <class I>
__device__ __forceinline__ void join(const Params& p, unsigned char* shared, int consumer, const Share& share,
                                     const float (&sum)[I::kBlocks][I::kN / 2]) {
  constexpr std::uint32_t kQuads = I::kBlocks * I::kN / 8 * 128;
  constexpr std::uint32_t kThreads = 128 * I::kConsumers;
  auto* const scratch = reinterpret_cast<float4*>(shared + kRingOffset);
  const std::uint32_t thread = threadIdx.x % 128;
  ptx::barrier_sync(kSumsBarrier, kThreads);  // the rings are not read any more
#pragma unroll
  for (std::uint32_t b = 0; b < I::kBlocks; ++b) {
#pragma unroll
    for (std::uint32_t j = 0; j < I::kN / 8; ++j) {
      scratch[static_cast<std::uint32_t>(consumer) * kQuads + (b * (I::kN / 8) + j) * 128 + thread] =
          make_float4(sum[b][4 * j], sum[b][4 * j + 1], sum[b][4 * j + 2], sum[b][4 * j + 3]);
    }
  }
  ptx::barrier_sync(kSumsBarrier, kThreads);
  const std::uint32_t split = p.parts.quotient(blockIdx.x);
  auto* const to =
      reinterpret_cast<float4*>(p.partials) + (static_cast<std::size_t>(share.part) * p.splits + split) * kQuads;
#pragma unroll 1
  for (std::uint32_t quad = threadIdx.x - 128; quad < kQuads; quad += kThreads) {
    float4 total = scratch[quad];
#pragma unroll
    for (std::uint32_t other = 1; other < I::kConsumers; ++other) add_to(&total, scratch[other * kQuads + quad]);
    if (p.splits > 1) {
      to[quad] = total;
    } else {
      store_quad<typename I::T>(p, I::kBlocks, I::kN, share.part, quad, total);
    }
  }
}

template <class I>
__device__ __forceinline__ void start(const Params& p, Barriers& barriers, unsigned char* shared, int warp) {
  const unsigned lane = threadIdx.x % 32;
  if (warp == 0) {
    if (lane == 0) {
      ptx::prefetch_tensormap(&p.dy);
    }
    if (lane < kMostStages) {
      ptx::mbarrier_init(&barriers.full[lane], 1 + 32 * kExpanders);
      ptx::mbarrier_init(&barriers.empty[lane], 4 * I::kConsumers);
      ptx::mbarrier_init(&barriers.raw_full[lane], 1);
      ptx::mbarrier_init(&barriers.raw_empty[lane], kExpanders);
      ptx::fence_mbarrier_init();
    }
  } else if (warp == 1 && lane < 4) {
    *reinterpret_cast<std::uint32_t*>(shared + kZeroOffset + 4 * lane) = 0;
  }
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) few_channels_filter_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(kAlignment) unsigned char shared[];
  auto& barriers = *reinterpret_cast<Barriers*>(shared);
  // Told to the compiler to be the same in all lanes.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  start<I>(p, barriers, shared, warp);
  __syncthreads();
  if (warp < 4) {
    ptx::setmaxnreg_dec<I::kProducerRegisters>();
    if (warp == 0) {
      produce<I>(p, barriers, shared);
    } else {
      expand(p, barriers, shared);
    }
  } else {
    if ((ptx::shared_address(shared) & (kAlignment - 1)) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    const int consumer = warp / 4 - 1;
    const Share share = share_of_block(p);
    float sum[I::kBlocks][I::kN / 2] = {};
    multiply<I>(p, barriers, shared, consumer, share, sum);
    join<I>(p, shared, consumer, share, sum);
  }
}

// --- the sum over the splits -----------------------------------------------------------------------------------------

constexpr int kSumThreads = 256;
constexpr int kMostLanes = 32;  // that share four sums

// Lane l adds splits l, l + lanes and so on; then the lanes are added up as a tree.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    few_channels_filter_sum(const __grid_constant__ Params p, int blocks, int filters, int lanes) {
  __shared__ float4 partial[kSumThreads];
  const int columns = kSumThreads / lanes;
  const int column = static_cast<int>(threadIdx.x) % columns;
  const int lane = static_cast<int>(threadIdx.x) / columns;
  const auto quads = static_cast<std::uint32_t>(blocks * filters / 8 * 128);
  const std::uint32_t blocks_of_part = quads / static_cast<std::uint32_t>(columns);
  const std::uint32_t part = blockIdx.x / blocks_of_part;
  const std::uint32_t quad =
      blockIdx.x % blocks_of_part * static_cast<std::uint32_t>(columns) + static_cast<std::uint32_t>(column);
  const auto* const from =
      reinterpret_cast<const float4*>(p.partials) + static_cast<std::size_t>(part) * p.splits * quads + quad;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (auto s = static_cast<std::uint32_t>(lane); s < p.splits; s += static_cast<std::uint32_t>(lanes)) {
    add_to(&sum, from[static_cast<std::size_t>(s) * quads]);
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (lane < half) add_to(&sum, partial[threadIdx.x + static_cast<unsigned>(half * columns)]);
    __syncthreads();
  }
  if (lane == 0) store_quad<T>(p, blocks, filters, part, quad, sum);
}

// --- launches --------------------------------------------------------------------------------------------------------

template <class T>
void launch_sum(const Shape& shape, const Params& params, CUstream_st* stream) {
  int lanes = 1;
  while (lanes < kMostLanes && static_cast<std::uint32_t>(2 * lanes) <= params.splits) lanes *= 2;
  const std::uint32_t blocks =
      params.parts.divisor * (quads_of(shape) * static_cast<std::uint32_t>(lanes) / kSumThreads);
  few_channels_filter_sum<T><<<blocks, kSumThreads, 0, stream>>>(params, shape.blocks, shape.filters, lanes);
}

using LaunchShape = void (*)(const Params& params, CUstream_st* stream);

template <class T, int kShape>
void launch_instance(const Params& params, CUstream_st* stream) {
  using I = Instance<T, kShape>;
  tile::allow_shared_memory<&few_channels_filter_sm90<I>>(tile::kAllThatABlockMayHave);
  few_channels_filter_sm90<I>
      <<<params.parts.divisor * params.splits, I::kThreads, params.shared_bytes, stream>>>(params);
  if (params.splits > 1) launch_sum<T>(kShapes[kShape], params, stream);
}

// The instances of a type, made in the file of the type.
template <class T>
LaunchShape launch_of(int shape) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchShape kLaunches[] = {&launch_instance<T, static_cast<int>(kIndex)>...};
    return kLaunches[shape];
  }
  (std::make_index_sequence<kShapeCount>());
}

}  // namespace gpudnn::kernels::few_channels_filter
