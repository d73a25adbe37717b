// Direct filter gradient for Hopper: windows of step 1, few channels; wgmma on rows of the image that are loaded once
// for all taps.
//
//   dw[k, r, s, c] = sum over pixels (n, p, q) of dy[n, p, q, k] * x[n, p + r - pad, q + s - pad, c]
//
// A block keeps the sums of 64 filters, 3 x 3 taps and 64 (or 32) channels in the registers of three warpgroups, one
// for each row of taps: D[k, (s, c)] += A[k, pixel] * B[pixel, (s, c)]. Both operands lie as they come, channels
// innermost, and pixels are the reduction. The three taps of B are the same row of x, started one pixel further each:
// wgmma's leading offset, the distance of 64 columns, is a pixel (or the dilation). Swizzled operands may start at any
// pixel, as the swizzle goes by the bits of the address.
//
// An instruction adds up 16 pixels: 8 of each of two rows, whose distance is wgmma's other offset. So no product takes
// a pixel beyond a row's end, where zeros in dy would meet pixels of x that may be infinite. What a row has beyond
// whole octets, its rest, comes again: for each tap a box of as many pixels as dy has left, in an octet of zeros. A
// single last row has a row of zeros for its second.
//
// Data flow: a block goes down strips of pairs of rows of dy. A stage has two rows of x, and the two rows of dy whose
// windows end there.
//   producer    one thread starts the copies of a stage, zeros outside of the image.                  -> full
//   consumers   warpgroup r multiplies a pair of rows of dy by the two rows of x that lie r below.     -> empty
// Rows of x that follow one another lie so in the ring, but for the last and the first: the first is there twice.
// A second kernel adds up the blocks' sums, in order (direct_wgrad_sm90_sum.cuh).
//
// Bytes: dy once, x once and a little; 147 KB of sums from each block, twice through the L2. For each 16 pixels and row
// of taps 96 cycles of products read 2 KiB of dy and 6 KiB of x from shared memory, 85 bytes a cycle of 128.
//
// More taps, channels or filters are parts, each by blocks of its own. Limits: steps of 1, 16-bit elements, whole
// 16-byte vectors of channels and filters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/direct/direct_wgrad_sm90.hpp"
#include "kernels/conv/direct/direct_wgrad_sm90_loads.cuh"
#include "kernels/conv/direct/direct_wgrad_sm90_sum.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/ptx/wgmma_n96.cuh"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/shared_memory.hpp"

namespace gpudnn::kernels::direct_wgrad {

// wgmma's descriptor of 8 pixels in each of two rows, `stride` bytes apart; columns beyond a pixel's channels are the
// pixels `leading` bytes further.
template <int kPixelBytes>
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address, std::uint32_t leading,
                                                    std::uint32_t stride) {
  static_assert(kPixelBytes == 128 || kPixelBytes == 64, "the swizzles of the tensor maps");
  constexpr std::uint64_t kSwizzle = std::uint64_t{kPixelBytes == 128 ? 1 : 2} << 62;
  return kSwizzle | static_cast<std::uint64_t>(stride >> 4) << 32 | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>((address & 0x3ffffu) >> 4);
}

template <class I>
__device__ __forceinline__ void multiply_octet(std::uint64_t dy, std::uint64_t x, float (&sum)[I::kSums]) {
  if constexpr (I::kN == 96) {
    ptx::wgmma_n96<typename I::T, 1, 1>(sum, dy, x);
  } else {
    ptx::wgmma<typename I::T, I::kN, 1, 1>(sum, dy, x);
  }
}

// `octets` of a pair of rows, then the rest, if there is one.
template <class I>
__device__ __forceinline__ void multiply_pair(std::uint64_t dy, std::uint64_t x, std::uint64_t rest,
                                              std::uint32_t octets, std::uint32_t all_octets, float (&sum)[I::kSums]) {
  constexpr std::uint64_t kStepOfDy = kOctet * kDyPixelBytes >> 4;
  constexpr std::uint64_t kStepOfX = I::kOctetBytes >> 4;
  std::uint32_t i = 0;
  ptx::wgmma_fence();
#pragma unroll 1
  for (; i + 4 <= octets; i += 4) {
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) multiply_octet<I>(dy + j * kStepOfDy, x + j * kStepOfX, sum);
    dy += 4 * kStepOfDy;
    x += 4 * kStepOfX;
  }
#pragma unroll 1
  for (; i < all_octets; ++i) {
    multiply_octet<I>(dy, i < octets ? x : rest, sum);
    dy += kStepOfDy;
    x += kStepOfX;
  }
  ptx::wgmma_commit_group();
}

__device__ __forceinline__ void release(Barriers& barriers, std::uint32_t* stage, std::uint32_t stages) {
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&barriers.empty[*stage]);
  *stage = *stage + 1 == stages ? 0 : *stage + 1;
}

// A warpgroup's work: row `row` of the part's taps, and of the block's pairs of rows number `share`, share + shares ...
template <class I>
__device__ __forceinline__ void multiply(const Params& p, Barriers& barriers, unsigned char* shared, const Share& units,
                                         std::uint32_t row, std::uint32_t share, float (&sum)[I::kSums]) {
  const std::uint32_t xs = ptx::shared_address(shared + kRingOffset);
  const std::uint32_t dys = ptx::shared_address(shared + p.dy_offset);
  const std::uint32_t zeros = ptx::shared_address(shared + p.zero_offset);
  const std::uint32_t ahead = row * static_cast<std::uint32_t>(p.dilation[1]);
  const auto leading = static_cast<std::uint32_t>(p.dilation[0] * I::kPixelBytes);
  tile::RingState newest;
  std::uint32_t oldest = 0;  // stage that is still read
  std::uint32_t until_mine = share;
#pragma unroll 1
  for (std::uint32_t unit = units.first; unit < units.last;) {
    const Run run = run_at(p, unit, units.last);
    unit += run.count;
    const std::uint32_t octets = octets_of(p, run);
    const std::uint32_t all_octets = octets + (has_rest(p, run) ? 1 : 0);
#pragma unroll 1
    for (std::uint32_t j = 0; j < run.count + p.halo_pairs; ++j) {
      tile::wait(&barriers.full[newest.stage], newest.parity);
      if (j >= p.halo_pairs) {
        if (until_mine == 0) {
          std::uint32_t stage = oldest + ahead / 2;
          stage -= stage >= p.stages ? p.stages : 0;
          const std::uint32_t x = xs + (2 * stage + ahead % 2) * p.x_row_bytes;
          const bool is_single = p.last_row_is_single && run.first + j - p.halo_pairs + 1 == p.pairs.divisor;
          const std::uint32_t stride = is_single ? zeros - x : p.x_row_bytes;
          const std::uint32_t dy = dys + 2 * newest.stage * p.dy_row_bytes;
          multiply_pair<I>(
              descriptor<kDyPixelBytes>(dy, 16, p.dy_row_bytes), descriptor<I::kPixelBytes>(x, leading, stride),
              descriptor<I::kPixelBytes>(x + p.rest_offset, I::kOctetBytes, stride), octets, all_octets, sum);
          ptx::wgmma_wait_group<0>();
        }
        until_mine = until_mine == 0 ? p.shares - 1 : until_mine - 1;
        release(barriers, &oldest, p.stages);
      }
      newest.next(p.stages);
    }
    for (std::uint32_t j = 0; j < p.halo_pairs; ++j) release(barriers, &oldest, p.stages);
  }
}

// Kept for the second kernel.
template <class I>
__device__ __forceinline__ void store(const Params& p, const Share& units, std::uint32_t row, std::uint32_t share,
                                      const float (&sum)[I::kSums]) {
  const std::uint32_t sums = p.splits * p.shares;
  const std::size_t index =
      static_cast<std::size_t>(units.part * p.part_rows + row) * sums + units.split * p.shares + share;
  float4* const to = reinterpret_cast<float4*>(p.partials) + index * quads_of(I::kChannels) + threadIdx.x % 128;
#pragma unroll
  for (std::uint32_t i = 0; i < I::kSums / 4; ++i) {
    to[i * 128] = make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
  }
}

template <class I>
__global__ void __launch_bounds__(kThreads, 1) direct_wgrad_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(kAlignment) unsigned char shared[];
  auto& barriers = *reinterpret_cast<Barriers*>(shared);
  // Told to the compiler to be the same in all lanes.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const Share units = share_of_block(p);
  const PartPlace part = part_place(p, units.part);
  if (warp == kProducerWarp) make_barriers(p, barriers, part);
  fill_zeros(p, shared);
  __syncthreads();
  ptx::griddepcontrol_launch_dependents();
  if (warp == kProducerWarp) {
    produce(p, barriers, shared, units, part);
  } else {
    if ((ptx::shared_address(shared) & (kAlignment - 1)) != 0) __trap();  // the swizzle counts on it
    const auto consumer = static_cast<std::uint32_t>(warp) / 4;
    const std::uint32_t row = p.shares > 1 ? 0 : consumer;
    const std::uint32_t share = p.shares > 1 ? consumer : 0;
    if (row >= part.taps_h) return;
    float sum[I::kSums] = {};
    multiply<I>(p, barriers, shared, units, row, share, sum);
    store<I>(p, units, row, share, sum);
  }
}

template <class I>
void launch_instance(const Params& params, CUstream_st* stream) {
  tile::allow_shared_memory<&direct_wgrad_sm90<I>>(tile::kAllThatABlockMayHave);
  tile::launch_kernel(&direct_wgrad_sm90<I>, {params.parts.divisor * params.splits, kThreads, params.shared_bytes},
                      stream, params);
}

template <class T>
void launch_of(const Params& params, CUstream_st* stream) {
  if (params.part_channels == 64) {
    launch_instance<Instance<T, 64>>(params, stream);
  } else {
    launch_instance<Instance<T, 32>>(params, stream);
  }
  launch_sum<T>(params, stream);
}

}  // namespace gpudnn::kernels::direct_wgrad
