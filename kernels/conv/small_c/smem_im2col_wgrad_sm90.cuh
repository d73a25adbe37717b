// Filter gradient of images with few channels for Hopper: filters first, both operands in shared memory.
//
//   dw[filter, r, s, c] = sum over pixels (n, p, q) of dy[n, p, q, filter] * x[n, p u + r - pad, q v + s - pad, c]
//
// as D[filter, tap] += A[filter, pixel] * B[pixel, tap]. A is dy as it lies, filters innermost, by TMA. Of
// B a filter row's S C taps of a pixel are neighbours in an image row, rounded up to whole octets (the additional sums
// nobody stores). An image row is written out in patches once: for each octet a plane of 16 bytes for each pixel of the
// strip, so that 8 pixels by 8 taps are the 128 bytes that a descriptor without swizzle names. Planes of an image row,
// and image rows that follow one another, are equally far apart: one product takes the taps of the whole filter, and
// nobody loads a fragment. That wants the rows of a window in a row, so the ring of groups has its first groups a
// second time behind its last one.
//
// A block goes down rows of strips of y. Each further row of y brings as many image rows as the vertical stride, a
// group, and one row of dy.
//   producer    one thread starts the copies of a row of dy and of its groups, zeros outside.        -> dy, raw
//   expanders   seven warps write groups in patches; pixels beyond a row of y are zeros there, since
//               x may be infinite where they would look.                                             raw -> slot
//   consumer    a warpgroup multiplies a row while the one before is on its way.                     dy, slot ->
// The blocks' sums are added up by a second kernel, in order.
// In TF32 patches have a tap's pixels together, and dy comes by way of registers (see the consumer in TF32).
//
// Bytes: dy once, x once. 16 pixels of 7 rows of 24 taps take 84 cycles of multiplication and 58 of shared memory; to
// write a row of 112 pixels in patches takes 250 cycles of shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/small_c/smem_im2col_wgrad_sm90_loads.cuh"
#include "kernels/conv/small_c/smem_im2col_wgrad_sm90_sums.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/wgmma_n168.cuh"
#include "kernels/ptx/wgmma_tf32_n168.cuh"
#include "kernels/tile/instances.hpp"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/shared_memory.hpp"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::smem_im2col_wgrad {

// --- the consumer ----------------------------------------------------------------------------------------------------

// B's descriptor: core matrices of 128 bytes, the next pixels behind them, the next octet in its plane.
__device__ __forceinline__ std::uint64_t patches_descriptor(const Params& p, const unsigned char* slots) {
  return static_cast<std::uint64_t>(p.plane_bytes >> 4) << 32 | static_cast<std::uint64_t>(kCoreBytes >> 4) << 16 |
         static_cast<std::uint64_t>((ptx::shared_address(slots) & 0x3ffffu) >> 4);
}

// The row before the last one is done: its row of dy and the first groups of its window are free.
__device__ __forceinline__ void release(const Params& p, Barriers& barriers, tile::RingState* dy, tile::RingState* slot,
                                        std::uint32_t groups) {
  ptx::mbarrier_arrive(&barriers.dy_empty[dy->stage]);
  dy->next(p.stages);
  for (std::uint32_t g = 0; g < groups; ++g) {
    ptx::mbarrier_arrive(&barriers.slot_empty[slot->stage]);
    slot->next(p.slots);
  }
}

// Goes down a block's rows. multiply_row(dy, patches, steps, end_row_before) starts the products of a row, whose dy and
// window are so many bytes into their rings. It calls end_row_before() when kBehind groups of products are under way
// behind those of the row before.
template <class I, int kBehind, class MultiplyRow>
__device__ __forceinline__ void multiply_rows(const Params& p, Barriers& barriers, const Share& share,
                                              MultiplyRow multiply_row) {
  Place at = {};
  tile::RingState dy;
  tile::RingState slot;  // the next group to come
  tile::RingState done_dy;
  tile::RingState done_slot;  // the first group of the window before
  std::uint32_t window = 0;
  std::uint32_t steps = 0;
#pragma unroll 1
  for (std::uint32_t i = 0; i < share.count(); ++i, ++at.row) {
    const bool begins = i == 0 || at.row == p.rows.divisor;
    if (begins) {
      at = place_of(p, share.first + i);
      steps = (columns_of(p, at) + I::kStepPixels - 1) / I::kStepPixels;
      if (i > 0) {
        ptx::wgmma_wait_group<0>();  // the ring may have no room for two windows
        release(p, barriers, &done_dy, &done_slot, p.groups);
      }
      window = slot.stage;
    }
    for (std::uint32_t g = begins ? 0 : p.groups - 1; g < p.groups; ++g) {
      tile::wait(&barriers.slot_full[slot.stage], slot.parity);
      slot.next(p.slots);
    }
    tile::wait(&barriers.dy_full[dy.stage], dy.parity);
    multiply_row(dy.stage * p.stage_bytes, window * p.slot_bytes, steps, [&] {
      if (begins) return;
      ptx::wgmma_wait_group<kBehind>();
      release(p, barriers, &done_dy, &done_slot, 1);
    });
    dy.next(p.stages);
    window = window + 1 == p.slots ? 0 : window + 1;
  }
  ptx::wgmma_wait_group<0>();
}

// --- the consumer in 16 bits -----------------------------------------------------------------------------------------

template <class I>
__device__ __forceinline__ void multiply_step(std::uint64_t dy, std::uint64_t patches, float (&sum)[I::kTaps / 2]) {
  ptx::wgmma_fence();
  if constexpr (I::kTaps == 168) {
    ptx::wgmma_n168<typename I::T>(sum, dy, patches);
  } else {
    ptx::wgmma<typename I::T, I::kTaps, 1, 1>(sum, dy, patches);
  }
  ptx::wgmma_commit_group();
}

template <class I>
__device__ __forceinline__ void multiply(const Params& p, Barriers& barriers, unsigned char* shared, const Share& share,
                                         float (&sum)[I::kTaps / 2]) {
  const std::uint64_t dy_rows = tile::operand_descriptor<kBoxBytes>(shared + kRingOffset, 0);
  const std::uint64_t windows = patches_descriptor(p, shared + p.slot_offset);
  multiply_rows<I, 1>(p, barriers, share,
                      [&](std::uint32_t dy, std::uint32_t patches, std::uint32_t steps, auto end_row_before) {
                        std::uint64_t a = dy_rows + (dy >> 4);
                        std::uint64_t b = windows + (patches >> 4);
                        // A step is a group of its own: what is under way is known without knowing a row's length.
                        multiply_step<I>(a, b, sum);
                        end_row_before();
#pragma unroll 1
                        for (std::uint32_t step = 1; step < steps; ++step) {
                          a += I::kStepPixels * kBoxBytes >> 4;
                          b += 2 * kCoreBytes >> 4;
                          multiply_step<I>(a, b, sum);
                          ptx::wgmma_wait_group<2>();
                        }
                      });
}

// --- the consumer in TF32 --------------------------------------------------------------------------------------------
// wgmma takes no factor in TF32 whose pixels are not together, and dy has its filters together. So dy's fragments come
// by way of registers: two neighbouring filters of a pixel in a load. Rows g and g + 8 of a warp's 16 are filters 2g
// and 2g + 1, and the k of a fragment are pixels 0, 2, 4, 6, then 1, 3, 5, 7, which meets no bank twice in a swizzled
// box.

// Where a thread finds its filters of pixels 2t and 2t + 1 of eight.
struct FragmentPlace {
  std::uint32_t even, odd;
};
__device__ __forceinline__ FragmentPlace fragment_place(const Params& p) {
  const std::uint32_t warp = threadIdx.x % 128 / 32;
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  const std::uint32_t chunk = warp % 2 * 4 + g / 2;  // of 16 bytes in a box's row
  const std::uint32_t box = warp / 2 * p.tile_w.divisor * kBoxBytes + g % 2 * 8;
  return {box + 2 * t * kBoxBytes + (chunk ^ (2 * t)) * 16, box + (2 * t + 1) * kBoxBytes + (chunk ^ (2 * t + 1)) * 16};
}

__device__ __forceinline__ void load_fragment(const unsigned char* dy, const FragmentPlace& place, std::uint32_t step,
                                              std::uint32_t (&a)[4]) {
  const unsigned char* const from = dy + step * 8 * kBoxBytes;
  const uint2 even = *reinterpret_cast<const uint2*>(from + place.even);
  const uint2 odd = *reinterpret_cast<const uint2*>(from + place.odd);
  a[0] = even.x;
  a[1] = even.y;
  a[2] = odd.x;
  a[3] = odd.y;
}

template <int kTaps>
__device__ __forceinline__ void multiply_fragment(const std::uint32_t (&a)[4], std::uint64_t patches,
                                                  float (&sum)[kTaps / 2]) {
  if constexpr (kTaps == 168) {
    ptx::wgmma_tf32_n168(sum, a, patches);
  } else {
    ptx::wgmma_tf32_registers<kTaps>(sum, a, patches);
  }
}

// The steps of a row: a fragment is loaded while the product of the one before is under way. The last ones stay so.
template <class I>
__device__ __forceinline__ void multiply_row_tf32(const unsigned char* dy, const FragmentPlace& place,
                                                  std::uint64_t patches, std::uint32_t steps,
                                                  float (&sum)[I::kTaps / 2]) {
  std::uint32_t a[2][4];
  const auto multiply_one = [&](std::uint32_t step, std::uint32_t(&fragment)[4]) {
    load_fragment(dy, place, step, fragment);
    ptx::wgmma_fence();
    multiply_fragment<I::kTaps>(fragment, patches + step * (2 * kCoreBytes >> 4), sum);
    ptx::wgmma_commit_group();
  };
  std::uint32_t step = 0;
#pragma unroll 1
  for (; step + 1 < steps; step += 2) {
    multiply_one(step, a[0]);
    ptx::wgmma_wait_group<1>();
    multiply_one(step + 1, a[1]);
    ptx::wgmma_wait_group<1>();
  }
  if (step < steps) multiply_one(step, a[0]);
}

template <class I>
__device__ __forceinline__ void multiply_tf32(const Params& p, Barriers& barriers, unsigned char* shared,
                                              const Share& share, float (&sum)[I::kTaps / 2]) {
  const FragmentPlace place = fragment_place(p);
  const std::uint64_t windows = patches_descriptor(p, shared + p.slot_offset);
  multiply_rows<I, 0>(p, barriers, share,
                      [&](std::uint32_t dy, std::uint32_t patches, std::uint32_t steps, auto end_row_before) {
                        end_row_before();
                        multiply_row_tf32<I>(shared + kRingOffset + dy, place, windows + (patches >> 4), steps, sum);
                      });
}

// --- the kernel ------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void start(const Params& p, Barriers& barriers) {
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&p.x);
    ptx::prefetch_tensormap(&p.dy);
  }
  if (threadIdx.x < kMaxStages) {
    const unsigned i = threadIdx.x;
    // Each thread answers for what it wrote or read itself: racecheck does not follow one that speaks for its warp.
    ptx::mbarrier_init(&barriers.dy_full[i], 1);
    ptx::mbarrier_init(&barriers.raw_full[i], 1);
    ptx::mbarrier_init(&barriers.raw_empty[i], 32 * kExpanders);
    ptx::mbarrier_init(&barriers.slot_full[i], 32 * kExpanders);
    ptx::mbarrier_init(&barriers.dy_empty[i], 128);
    ptx::mbarrier_init(&barriers.slot_empty[i], 128);
    ptx::fence_mbarrier_init();
  }
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) smem_im2col_wgrad_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(kAlignment) unsigned char shared[];
  auto& barriers = *reinterpret_cast<Barriers*>(shared);
  // Told to the compiler to be the same in all lanes.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  ptx::griddepcontrol_launch_dependents();
  start(p, barriers);
  __syncthreads();
  if (warp <= kExpanders) {
    if (warp == 0) {
      produce<I>(p, barriers, shared);
    } else {
      expand<I>(p, barriers, shared);
    }
  } else {
    if ((ptx::shared_address(shared) & (kAlignment - 1)) != 0) __trap();  // the swizzle counts on it
    const Share share = share_of_block(p);
    float sum[I::kTaps / 2] = {};
    if constexpr (I::kType == ElementType::f32) {
      multiply_tf32<I>(p, barriers, shared, share, sum);
    } else {
      multiply<I>(p, barriers, shared, share, sum);
    }
    keep_sums<I>(p, shared, share.part, sum);
  }
}

// --- launches --------------------------------------------------------------------------------------------------------

template <class T>
void launch_sum(const Shape& shape, const Params& params, CUstream_st* stream) {
  const int lanes = sum_lanes(params.splits);
  const std::uint32_t blocks = sum_blocks(params.parts.divisor, quads_of(shape), lanes);
  tile::launch_kernel(&smem_im2col_wgrad_sum<T>, {.blocks = blocks, .threads = kSumThreads, .overlaps = true}, stream,
                      params, shape.taps, lanes);
}

template <class T, int kShape>
void launch_instance(const Params& params, CUstream_st* stream) {
  using I = Instance<T, kShape>;
  tile::allow_shared_memory<&smem_im2col_wgrad_sm90<I>>(tile::kAllThatABlockMayHave);
  tile::launch_kernel(&smem_im2col_wgrad_sm90<I>,
                      {params.parts.divisor * params.splits, I::kThreads, params.shared_bytes}, stream, params);
  if (params.splits > 1) launch_sum<T>(kShapes[kShape], params, stream);
}

template <class T>
LaunchShape launch_of(int shape) {
  return tile::entry_at<kShapeCount>(shape,
                                     [](auto instance) -> LaunchShape { return &launch_instance<T, instance()>; });
}

}  // namespace gpudnn::kernels::smem_im2col_wgrad
