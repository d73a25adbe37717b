// The epilogue of the Hopper filter gradient by rows of patches: a block's sums are stored, or kept for a second
// kernel, which adds up the blocks'. See smem_im2col_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/small_c/smem_im2col_wgrad_sm90.hpp"
#include "kernels/conv/wgrad_sums.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/griddepcontrol.cuh"

namespace gpudnn::kernels::smem_im2col_wgrad {

// The four sums of quad number `quad`, in the order in which threads keep them: two neighbouring taps, and the same of
// the filter 8 further, or of the next one in TF32.
template <class T>
__device__ __forceinline__ void store_quad(const Params& p, std::uint32_t filter_block, std::uint32_t quad,
                                           const float4& sum) {
  const std::uint32_t thread = quad % 128;
  constexpr std::uint32_t kOther = sizeof(T) == 4 ? 1 : 8;
  const std::uint32_t filter = filter_block * kFilters + thread / 32 * 16 + thread % 32 / 4 * (kOther == 1 ? 2 : 1);
  const std::uint32_t octet = quad / 128;
  const std::uint32_t tap = thread % 4 * 2;
  store_sum<T>(p, octet, tap, filter, sum.x);
  store_sum<T>(p, octet, tap + 1, filter, sum.y);
  store_sum<T>(p, octet, tap, filter + kOther, sum.z);
  store_sum<T>(p, octet, tap + 1, filter + kOther, sum.w);
}

constexpr int kSumsBarrier = 1;

// Keeps the sums for the second kernel, or stores them by way of where the rings were, so that no code is written out
// for each of them.
template <class I>
__device__ __forceinline__ void keep_sums(const Params& p, unsigned char* shared, std::uint32_t filter_block,
                                          const float (&sum)[I::kTaps / 2]) {
  constexpr std::uint32_t kQuads = I::kTaps / kOctet * 128;
  const std::uint32_t thread = threadIdx.x % 128;
  const bool is_alone = p.splits == 1;
  const std::uint32_t block = filter_block * p.splits + p.parts.quotient(blockIdx.x);
  if (is_alone) ptx::barrier_sync(kSumsBarrier, 128);  // the rings are not read any more
  float4* const to = is_alone ? reinterpret_cast<float4*>(shared + kRingOffset)
                              : reinterpret_cast<float4*>(p.partials) + static_cast<std::size_t>(block) * kQuads;
#pragma unroll
  for (std::uint32_t j = 0; j < I::kTaps / kOctet; ++j) {
    to[j * 128 + thread] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
  }
  if (!is_alone) return;
#pragma unroll 1
  for (std::uint32_t quad = thread; quad < kQuads; quad += 128) {
    store_quad<typename I::T>(p, filter_block, quad, to[quad]);
  }
}

// --- the sum over the splits -----------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kSumThreads)
    smem_im2col_wgrad_sum(const __grid_constant__ Params p, int taps, int lanes) {
  const auto quads = static_cast<std::uint32_t>(taps / kOctet * 128);
  const SumPlace place = sum_place(quads, lanes);
  ptx::griddepcontrol_wait();
  const float4 sum = sum_over_splits(p.partials, quads, p.splits, place);
  if (place.lane == 0) store_quad<T>(p, place.part, place.quad, sum);
}

}  // namespace gpudnn::kernels::smem_im2col_wgrad
