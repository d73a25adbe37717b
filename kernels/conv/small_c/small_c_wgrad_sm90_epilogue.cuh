// The epilogue of the Hopper filter gradient of images with few channels: the sums of a block's warpgroups are added up
// and stored, or kept for a second kernel, which adds up the blocks'. See small_c_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/small_c/small_c_wgrad_sm90_loads.cuh"
#include "kernels/conv/wgrad_sums.cuh"
#include "kernels/ptx/barrier.cuh"

namespace gpudnn::kernels::small_c_wgrad {

constexpr int kSumsBarrier = 1;

// The four sums of quad number `quad` of a part, in the order in which threads keep them: two neighbouring filters, and
// the same 8 taps further.
template <class T>
__device__ __forceinline__ void store_quad(const Params& p, int blocks, int filters, std::uint32_t part,
                                           std::uint32_t quad, const float4& sum) {
  std::uint32_t octet_part = 0;
  const std::uint32_t filter_block = p.octet_parts.divmod(part, &octet_part);
  const auto groups = static_cast<std::uint32_t>(filters) / 8;
  const std::uint32_t thread = quad % 128;
  const std::uint32_t octet =
      (octet_part * static_cast<std::uint32_t>(blocks) + quad / 128 / groups) * 8 + thread / 32 * 2;
  const std::uint32_t tap = thread % 32 / 4;
  const std::uint32_t filter =
      filter_block * static_cast<std::uint32_t>(filters) + quad / 128 % groups * 8 + thread % 4 * 2;
  store_sum<T>(p, octet, tap, filter, sum.x);
  store_sum<T>(p, octet, tap, filter + 1, sum.y);
  store_sum<T>(p, octet + 1, tap, filter, sum.z);
  store_sum<T>(p, octet + 1, tap, filter + 1, sum.w);
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
  for (std::uint32_t quad = threadIdx.x - 256; quad < kQuads; quad += kThreads) {
    float4 total = scratch[quad];
#pragma unroll
    for (std::uint32_t other = 1; other < I::kConsumers; ++other) tile::add_to(&total, scratch[other * kQuads + quad]);
    if (p.splits > 1) {
      to[quad] = total;
    } else {
      store_quad<typename I::T>(p, I::kBlocks, I::kN, share.part, quad, total);
    }
  }
}

// --- the sum over the splits -----------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kSumThreads)
    small_c_wgrad_sum(const __grid_constant__ Params p, int blocks, int filters, int lanes) {
  const auto quads = static_cast<std::uint32_t>(blocks * filters / 8 * 128);
  const SumPlace place = sum_place(quads, lanes);
  const float4 sum = sum_over_splits(p.partials, quads, p.splits, place);
  if (place.lane == 0) store_quad<T>(p, blocks, filters, place.part, place.quad, sum);
}

}  // namespace gpudnn::kernels::small_c_wgrad
