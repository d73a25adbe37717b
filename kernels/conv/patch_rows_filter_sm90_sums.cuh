// The way out of the Hopper filter gradient by rows of patches: a block's sums are stored, or kept for a second kernel,
// which adds up the blocks'. See patch_rows_filter_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/patch_rows_filter_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::patch_rows_filter {

// Rounds and stores one sum.
template <class T>
__device__ __forceinline__ void store_sum(const Params& p, std::uint32_t filter, std::uint32_t column, float sum) {
  std::uint32_t octet = 0;
  std::uint32_t r = p.octets_of_row.divmod(column / kOctet, &octet);
  const std::uint32_t tap = octet * kOctet + column % kOctet;
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

// The four sums of quad number `quad`, in the order in which threads keep them: two neighbouring taps, and the same of
// the filter 8 further, or of the next one in TF32.
template <class T>
__device__ __forceinline__ void store_quad(const Params& p, std::uint32_t filter_block, std::uint32_t quad,
                                           const float4& sum) {
  const std::uint32_t thread = quad % 128;
  constexpr std::uint32_t kOther = sizeof(T) == 4 ? 1 : 8;
  const std::uint32_t filter = filter_block * kFilters + thread / 32 * 16 + thread % 32 / 4 * (kOther == 1 ? 2 : 1);
  const std::uint32_t column = quad / 128 * kOctet + thread % 4 * 2;
  store_sum<T>(p, filter, column, sum.x);
  store_sum<T>(p, filter, column + 1, sum.y);
  store_sum<T>(p, filter + kOther, column, sum.z);
  store_sum<T>(p, filter + kOther, column + 1, sum.w);
}

__device__ __forceinline__ void add_to(float4* sum, const float4& more) {
  sum->x += more.x;
  sum->y += more.y;
  sum->z += more.z;
  sum->w += more.w;
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
  const std::uint32_t block = filter_block * p.splits + p.filter_blocks.quotient(blockIdx.x);
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

constexpr int kSumThreads = 256;
constexpr int kMostLanes = 32;  // that share four sums

// Lane l adds splits l, l + lanes and so on; then the lanes are added up as a tree.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    patch_rows_filter_sum(const __grid_constant__ Params p, int taps, int lanes) {
  __shared__ float4 partial[kSumThreads];
  const int columns = kSumThreads / lanes;
  const int column = static_cast<int>(threadIdx.x) % columns;
  const int lane = static_cast<int>(threadIdx.x) / columns;
  const auto quads = static_cast<std::uint32_t>(taps / kOctet * 128);
  const std::uint32_t blocks_of_part = quads / static_cast<std::uint32_t>(columns);
  const std::uint32_t part = blockIdx.x / blocks_of_part;
  const std::uint32_t quad =
      blockIdx.x % blocks_of_part * static_cast<std::uint32_t>(columns) + static_cast<std::uint32_t>(column);
  const auto* const from =
      reinterpret_cast<const float4*>(p.partials) + static_cast<std::size_t>(part) * p.splits * quads + quad;
  float4 sum = make_float4(0, 0, 0, 0);
  ptx::griddepcontrol_wait();
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
  if (lane == 0) store_quad<T>(p, part, quad, sum);
}

}  // namespace gpudnn::kernels::patch_rows_filter
