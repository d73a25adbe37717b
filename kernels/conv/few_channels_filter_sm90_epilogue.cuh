// The way out of the Hopper filter gradient of images with few channels: the sums of a block's warpgroups are added up
// and stored, or kept for a second kernel, which adds up the blocks'. See few_channels_filter_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/few_channels_filter_sm90_loads.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::few_channels_filter {

constexpr int kSumsBarrier = 1;

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
  for (std::uint32_t quad = threadIdx.x - 256; quad < kQuads; quad += kThreads) {
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

}  // namespace gpudnn::kernels::few_channels_filter
