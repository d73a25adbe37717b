// The convolution of sliced_k_sm80.cuh where it is a product of two matrices of rows: one tap, no padding, no stride.
//
//   y[m, n] = sum over k of x[m, k] * w[n, k]
//
// A few hundred instructions stand between the start of such a block and its first load, and as many between its last
// product and its stores; here neither pixels nor terms are taken apart, a warp's chunks lie one after the other, so
// that their addresses differ by constants, and rows beyond the end read the last one.
//
// Filters are dealt to a product's columns so that a lane has 8 neighbouring ones: column 2q + e of group i is filter
// 8q + 2i + e. A tile whose terms are one warp's leaves without shared memory.
//
// With kHalves rows begin at multiples of 8 bytes and hold multiples of 4 terms: a lane's 8 terms are two loads, and
// its 8 filters two stores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/conv/sliced_k/sliced_k_sm80.cuh"
#include "kernels/ptx/prefetch_l2.cuh"

namespace gpudnn::kernels::sliced_k {

// N neighbouring filters of a pixel.
template <class T, int N>
__device__ __forceinline__ void finish_row(const Params& p, std::uint32_t pixel, std::uint32_t filter, float (&v)[N]) {
  if (pixel >= p.pixels || filter >= p.filters) return;
  if (!p.is_plain) {
    const T* const addend = static_cast<const T*>(p.addend) +
                            (std::uint64_t{pixel} * static_cast<std::uint32_t>(p.addend_at.axis[0]) + filter);
#pragma unroll
    for (std::uint32_t i = 0; i < N; ++i) {
      v[i] *= p.alpha;
      if (p.addend_scale != 0.0f) v[i] += p.addend_scale * tile::widen<float>(addend[i]);
      if (p.has_bias) {
        v[i] += gemm::channel_value<T>(p.bias, static_cast<std::int64_t>(filter + i) * p.bias_step, p.float_vectors);
      }
    }
    if (p.activation.mode == gemm::Activation::relu) gemm::activate_relu(p.activation, v);
  }
  T* const y = static_cast<T*>(p.y) + (std::uint64_t{pixel} * static_cast<std::uint32_t>(p.y_at.axis[0]) + filter);
  tile::store_pack<T, N>(y, tile::narrow_pack<T>(v));
}

template <bool kHalves>
__device__ __forceinline__ uint4 load_terms(const char* row, std::uint32_t first, std::uint32_t terms) {
  if constexpr (!kHalves) return load_16(reinterpret_cast<const std::uint16_t*>(row), first < terms);
  const auto* const halves = reinterpret_cast<const uint2*>(row);
  const uint2 low = first < terms ? __ldg(halves) : make_uint2(0, 0);
  const uint2 high = first + 4 < terms ? __ldg(halves + 1) : make_uint2(0, 0);
  return make_uint4(low.x, low.y, high.x, high.y);
}

template <bool kIsBf16, std::uint32_t kAtOnce, bool kHalves>
__global__ void __launch_bounds__(kThreads, kAtOnce == 2 ? 2 : 1) sliced_k_rows_sm80(const __grid_constant__ Params p) {
  using T = std::conditional_t<kIsBf16, tile::BFloat16, tile::Half>;
  constexpr std::uint32_t kChunkBytes = kChunk * 2;
  __shared__ float shared[kWarps][kTilePixels][kRowFloats];
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t quarter = lane % 4;
  const std::uint32_t slices = 1u << p.slice_shift;
  const std::uint32_t tile = blockIdx.x * (blockDim.x / 32 >> p.slice_shift) + (warp >> p.slice_shift);
  const std::uint32_t first_pixel = tile * kTilePixels;
  const std::uint32_t first_filter = blockIdx.y * kTileFilters;

  // The chunks of a warp lie one after the other.
  const std::uint32_t share = (p.chunks + slices - 1) >> p.slice_shift;
  const std::uint32_t begin = (warp & (slices - 1)) * share;
  const std::uint32_t end = min(begin + share, p.chunks);
  const std::uint32_t offset = begin * kChunkBytes + quarter * 16;
  const char* a[2];
  const char* b[kGroups];
#pragma unroll
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t pixel = min(first_pixel + lane / 4 + i * 8, p.pixels - 1);
    a[i] = static_cast<const char*>(p.x) + offset + std::uint64_t{pixel} * p.x_row;
  }
#pragma unroll
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    const std::uint32_t filter = min(first_filter + lane / 8 * 8 + lane / 4 % 2 + i * 2, p.filters - 1);
    b[i] = static_cast<const char*>(p.w) + offset + std::uint64_t{filter} * p.w_row;
  }

  float sum[kGroups][4] = {};
  for (std::uint32_t chunk = begin; chunk < end; chunk += kAtOnce) {
    Fragments f[kAtOnce];
#pragma unroll
    for (std::uint32_t i = 0; i < kAtOnce; ++i) {
      if (chunk + i >= end) break;
      const std::uint32_t term = (chunk + i) * kChunk + quarter * 8;
      const auto load = [&](const char* row) { return load_terms<kHalves>(row + i * kChunkBytes, term, p.terms); };
#pragma unroll
      for (int j = 0; j < 2; ++j) f[i].a[j] = load(a[j]);
#pragma unroll
      for (int j = 0; j < kGroups; ++j) f[i].b[j] = load(b[j]);
    }
    // The terms of all later turns are on their way from memory meanwhile, a chunk of each row by each of four lanes.
    if (chunk == begin) {
      for (std::uint32_t later = begin + kAtOnce + quarter; later < end; later += 4) {
        const std::uint32_t ahead = (later - begin) * kChunkBytes - quarter * 16;
#pragma unroll
        for (int j = 0; j < 2; ++j) ptx::prefetch_l2(a[j] + ahead);
#pragma unroll
        for (int j = 0; j < kGroups; ++j) ptx::prefetch_l2(b[j] + ahead);
      }
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kAtOnce; ++i) {
      if (chunk + i >= end) break;
      multiply_chunk<kIsBf16>(f[i], sum);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) a[j] += kAtOnce * kChunkBytes;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) b[j] += kAtOnce * kChunkBytes;
  }

  if (slices == 1) {
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      constexpr std::uint32_t kAlong = kHalves ? 4 : 8;
#pragma unroll
      for (std::uint32_t first = 0; first < 8; first += kAlong) {
        float v[kAlong];
#pragma unroll
        for (std::uint32_t i = 0; i < kAlong; ++i) v[i] = sum[(first + i) / 2][half * 2 + i % 2];
        finish_row<T>(p, first_pixel + lane / 4 + half * 8, first_filter + quarter * 8 + first, v);
      }
    }
    return;
  }
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    auto* const to = reinterpret_cast<float4*>(&shared[warp][lane / 4 + half * 8][quarter * 8]);
    to[0] = make_float4(sum[0][half * 2], sum[0][half * 2 + 1], sum[1][half * 2], sum[1][half * 2 + 1]);
    to[1] = make_float4(sum[2][half * 2], sum[2][half * 2 + 1], sum[3][half * 2], sum[3][half * 2 + 1]);
  }
  __syncthreads();
  // Four filters of a pixel for each thread of the warps that share the tile.
  constexpr std::uint32_t kVectors = kTileFilters / 4;
  const std::uint32_t first_warp = warp & ~(slices - 1);
  for (std::uint32_t i = threadIdx.x - first_warp * 32; i < kTilePixels * kVectors; i += slices * 32) {
    const std::uint32_t row = i / kVectors;
    const std::uint32_t column = i % kVectors * 4;
    float v[4] = {};
#pragma unroll
    for (std::uint32_t j = 0; j < kWarps; ++j) {
      if (j >= slices) break;
      const float4 add = *reinterpret_cast<const float4*>(&shared[first_warp + j][row][column]);
      v[0] += add.x, v[1] += add.y, v[2] += add.z, v[3] += add.w;
    }
    finish_row<T>(p, first_pixel + row, first_filter + column, v);
  }
}

}  // namespace gpudnn::kernels::sliced_k
