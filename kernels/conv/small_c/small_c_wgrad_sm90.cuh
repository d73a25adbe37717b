// Filter gradient of images with few channels for Hopper: wgmma with the image's side in registers.
//
//   dw[filter, r, s, c] = sum over pixels (n, p, q) of dy[n, p, q, filter] * x[n, p u + r - pad, q v + s - pad, c]
//
// as D[tap, filter] += A[tap, pixel] * B[pixel, filter]. B is dy as it lies, filters innermost, by TMA. A
// is never stored: of a filter row r the taps (s, c) of a pixel are neighbours in the image row, so ldmatrix takes rows
// of 8 taps of 8 pixels and transposes them into wgmma's fragments. A filter row's S C taps are rounded up to whole
// octets, whose additional sums nobody stores.
//
// ldmatrix wants rows at multiples of 16 bytes, but pixels follow at v C elements. So shared memory holds an image row
// in 16 / gcd(16, 2 v C) copies, shifted against one another such that copy c is aligned for the pixels with q % copies
// == c; a lane reads the copy of its own pixel. Copies begin in different banks, as 8 pixels in a row should lie. The
// TMA brings rows as they lie in memory (its boxes, too, must begin at multiples of 16 bytes: others end in an
// illegal instruction), and seven warps expand them. Padding is zeros. Pixels beyond the end of a row of y are read
// from zeros, since x may be infinite where they would look.
//
// A block goes down rows of strips of y. It keeps the image rows of a window in a ring: each further row of y brings as
// many image rows as the vertical stride, a group, and one row of dy.
//   producer    one thread starts the copies of a row of dy and of its group of image rows.          -> full, raw_full
//   expanders   seven warps make the copies of a group, some rows ahead of the products.             -> full, raw_empty
//   consumers   warpgroups take the steps of 16 pixels in turn, all with all the taps of the block.  -> empty
// In the end the warpgroups' sums are added up in shared memory, and the blocks' by a second kernel, in order.
//
// Bytes: dy once, x once. For each step of 16 pixels, 64 taps and 64 filters: 32 cycles of multiplication, 2 KiB of
// fragments and 2 KiB of dy from shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/small_c/small_c_wgrad_sm90_epilogue.cuh"
#include "kernels/conv/small_c/small_c_wgrad_sm90_loads.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma_a_registers.cuh"
#include "kernels/tile/instances.hpp"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/shared_memory.hpp"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::small_c_wgrad {

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
    std::uint32_t r = p.taps.row_octets.divmod(octet, &inside);
    if (r >= p.taps.height) r = inside = 0;  // sums that are not stored
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
  for (int b = 0; b < I::kBlocks; ++b) ptx::wgmma_a_registers<typename I::T, I::kN, true>(sum[b], a[b], b_operand);
}

// The consumer's steps of a row, from `step` on. Returns the first one after the row.
template <class I>
__device__ __forceinline__ std::uint32_t multiply_row(const Params& p, const std::uint32_t (&from)[I::kBlocks],
                                                      std::uint32_t zeros, std::uint32_t pixel, std::uint64_t dy,
                                                      std::uint32_t step, std::uint32_t columns,
                                                      float (&sum)[I::kBlocks][I::kN / 2]) {
  const std::uint32_t steps = (columns + kStepPixels - 1) / kStepPixels;
  if constexpr (I::kAhead) {
    if (step >= steps) return step;
    std::uint32_t a[2][I::kBlocks][4];
    load_step<I>(p, from, zeros, pixel, step, columns, a[0]);
#pragma unroll 1
    while (true) {
      ptx::wgmma_fence();
      multiply_step<I>(dy, step, a[0], sum);
      ptx::wgmma_commit_group();
      step += I::kConsumers;
      if (step < steps) load_step<I>(p, from, zeros, pixel, step, columns, a[1]);
      ptx::wgmma_wait_group<0>();
      if (step >= steps) break;
      ptx::wgmma_fence();
      multiply_step<I>(dy, step, a[1], sum);
      ptx::wgmma_commit_group();
      step += I::kConsumers;
      if (step < steps) load_step<I>(p, from, zeros, pixel, step, columns, a[0]);
      ptx::wgmma_wait_group<0>();
      if (step >= steps) break;
    }
  } else {
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
  Place at = {};
  std::uint32_t columns = 0;
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
  std::uint32_t slot = 0;
  auto step = static_cast<std::uint32_t>(consumer);
#pragma unroll 1
  for (std::uint32_t i = 0; i < share.count(); ++i, ++at.row) {
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
    ptx::mbarrier_arrive(&barriers.empty[stage]);
    slot = slot + 1 == p.slots ? 0 : slot + 1;
    parity ^= stage + 1 == p.stages.divisor ? 1u : 0u;
    stage = stage + 1 == p.stages.divisor ? 0 : stage + 1;
  }
}

template <class I>
__device__ __forceinline__ void start(const Params& p, Barriers& barriers, unsigned char* shared, int warp) {
  const unsigned lane = threadIdx.x % 32;
  if (warp == 0) {
    if (lane == 0) {
      ptx::prefetch_tensormap(&p.dy);
    }
    if (lane < kMaxStages) {
      // Each thread answers for what it wrote or read itself: racecheck does not follow one that speaks for its warp.
      ptx::mbarrier_init(&barriers.full[lane], 1 + 32 * kExpanders);
      ptx::mbarrier_init(&barriers.empty[lane], 128 * I::kConsumers);
      ptx::mbarrier_init(&barriers.raw_full[lane], 1);
      ptx::mbarrier_init(&barriers.raw_empty[lane], 32 * kExpanders);
      ptx::fence_mbarrier_init();
    }
  } else if (warp == 1 && lane < 4) {
    *reinterpret_cast<std::uint32_t*>(shared + kZeroOffset + 4 * lane) = 0;
  }
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) small_c_wgrad_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(kAlignment) unsigned char shared[];
  auto& barriers = *reinterpret_cast<Barriers*>(shared);
  // Told to the compiler to be the same in all lanes.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  start<I>(p, barriers, shared, warp);
  __syncthreads();
  if (warp < 8) {
    ptx::setmaxnreg_dec<I::kProducerRegisters>();
    if (warp == 0) {
      produce<I>(p, barriers, shared);
    } else {
      expand<I>(p, barriers, shared);
    }
  } else {
    if ((ptx::shared_address(shared) & (kAlignment - 1)) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    const int consumer = warp / 4 - 2;
    const Share share = share_of_block(p);
    float sum[I::kBlocks][I::kN / 2] = {};
    multiply<I>(p, barriers, shared, consumer, share, sum);
    join<I>(p, shared, consumer, share, sum);
  }
}

// --- launches --------------------------------------------------------------------------------------------------------

template <class T>
void launch_sum(const Shape& shape, const Params& params, CUstream_st* stream) {
  const int lanes = sum_lanes(params.splits);
  const std::uint32_t blocks = sum_blocks(params.parts.divisor, quads_of(shape), lanes);
  tile::launch_kernel(&small_c_wgrad_sum<T>, {blocks, kSumThreads}, stream, params, shape.blocks, shape.filters, lanes);
}

template <class T, int kShape>
void launch_instance(const Params& params, CUstream_st* stream) {
  using I = Instance<T, kShape>;
  tile::allow_shared_memory<&small_c_wgrad_sm90<I>>(tile::kAllThatABlockMayHave);
  tile::launch_kernel(&small_c_wgrad_sm90<I>, {params.parts.divisor * params.splits, I::kThreads, params.shared_bytes},
                      stream, params);
  if (params.splits > 1) launch_sum<T>(kShapes[kShape], params, stream);
}

template <class T>
LaunchShape launch_of(int shape) {
  return tile::entry_at<kShapeCount>(shape,
                                     [](auto instance) -> LaunchShape { return &launch_instance<T, instance()>; });
}

}  // namespace gpudnn::kernels::small_c_wgrad
