// Forward convolution for problems that are over before a pipeline has filled: few pixels, few filters.
//
//   y[m, n] = sum over k of A[m, k] * B[n, k],   m a pixel, n a filter, k a (tap, channel)
//
// What takes time there is the way to the first bytes and the code on it, so there is little of both: a warp loads its
// fragments straight from memory to registers, two or four chunks of 32 terms before it multiplies one, and up to eight
// warps of a block share a tile's terms, chunk by chunk in turn. So most problems wait for memory once. At the end the
// warps' sums meet in shared memory and are added in the order of the warps.
//
// Fragments. The order of terms in a product is free if A and B agree: lane t of the four that share a row has 8
// neighbouring terms of a chunk, 16 bytes; its first four stand for those that mma.sync wants in it in the chunk's
// first product, the others in the second.
//
// Limits: f16 and bf16, one group, two spatial dimensions or one, 31-bit pixel counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/sliced_k/sliced_k_sm80.hpp"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::sliced_k {

constexpr int kGroups = kTileFilters / 8;
constexpr int kRowFloats = kTileFilters + 4;  // so that the rows of a store fall into different banks

// A pixel of y: its image, and its window's corner.
struct Row {
  std::int32_t base;
  std::int32_t h, w;
  bool exists;
};
__device__ __forceinline__ Row row_at(const Params& p, std::uint32_t pixel) {
  Row row;
  row.exists = pixel < p.pixels;
  std::uint32_t w = 0;
  std::uint32_t h = 0;
  const std::uint32_t image = p.extent[1].divmod(p.extent[0].divmod(pixel, &w), &h);
  row.base = static_cast<std::int32_t>(image) * p.x_at.image;
  row.h = static_cast<std::int32_t>(h) * p.stride[1] - p.pad[1];
  row.w = static_cast<std::int32_t>(w) * p.stride[0] - p.pad[0];
  return row;
}
__device__ __forceinline__ bool is_inside(const Params& p, std::int32_t h, std::int32_t w) {
  return static_cast<std::uint32_t>(h) < static_cast<std::uint32_t>(p.x_extent[1]) &&
         static_cast<std::uint32_t>(w) < static_cast<std::uint32_t>(p.x_extent[0]);
}

// A lane's terms of a chunk: of two rows of pixels and four of filters.
struct Fragments {
  uint4 a[2];
  uint4 b[kGroups];
};

__device__ __forceinline__ uint4 load_16(const std::uint16_t* from, bool exists) {
  return exists ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ void load_vectors(const Params& p, const Row (&row)[2], std::uint32_t first_filter,
                                             std::uint32_t chunk, Fragments* f) {
  const auto* const x = static_cast<const std::uint16_t*>(p.x);
  const auto* const w = static_cast<const std::uint16_t*>(p.w);
  std::uint32_t part = 0;
  std::uint32_t s = 0;
  const std::uint32_t vector = chunk * 4 + threadIdx.x % 4;
  const std::uint32_t r = p.taps[0].divmod(p.vectors_of_tap.divmod(vector, &part), &s);
  const std::uint32_t channel = part * 8;
  const bool exists = vector * 8 < p.terms;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int32_t h = row[half].h + static_cast<std::int32_t>(r) * p.dilation[1];
    const std::int32_t v = row[half].w + static_cast<std::int32_t>(s) * p.dilation[0];
    f->a[half] =
        load_16(x + (row[half].base + h * p.x_at.axis[1] + v * p.x_at.axis[0] + static_cast<std::int32_t>(channel)),
                exists && row[half].exists && is_inside(p, h, v));
  }
  const std::uint16_t* const tap =
      w + (static_cast<std::int32_t>(r) * p.w_at.axis[1] + static_cast<std::int32_t>(s) * p.w_at.axis[0] +
           static_cast<std::int32_t>(channel));
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    const std::uint32_t n = first_filter + static_cast<std::uint32_t>(i * 8);
    f->b[i] = load_16(tap + static_cast<std::int32_t>(n) * p.w_at.image, exists && n < p.filters);
  }
}

__device__ __forceinline__ std::uint32_t& word_of(uint4& vector, int i) {
  return i == 0 ? vector.x : i == 1 ? vector.y : i == 2 ? vector.z : vector.w;
}

// One by one. All loads of a row are under way before the first is put into its word.
__device__ __forceinline__ void load_elements(const Params& p, const Row (&row)[2], std::uint32_t first_filter,
                                              std::uint32_t chunk, Fragments* f) {
  const auto* const x = static_cast<const std::uint16_t*>(p.x);
  const auto* const w = static_cast<const std::uint16_t*>(p.w);
  const std::uint32_t first = chunk * kChunk + threadIdx.x % 4 * 8;
  std::int32_t x_offset[8];
  std::int32_t w_offset[8];
  std::int32_t h[8];
  std::int32_t v[8];
#pragma unroll
  for (std::uint32_t i = 0; i < 8; ++i) {
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const auto c = static_cast<std::int32_t>(p.taps[1].divmod(p.taps[0].divmod(first + i, &s), &r));
    h[i] = static_cast<std::int32_t>(r) * p.dilation[1];
    v[i] = static_cast<std::int32_t>(s) * p.dilation[0];
    x_offset[i] = c * p.x_at.channel + h[i] * p.x_at.axis[1] + v[i] * p.x_at.axis[0];
    w_offset[i] = c * p.w_at.channel + static_cast<std::int32_t>(r) * p.w_at.axis[1] +
                  static_cast<std::int32_t>(s) * p.w_at.axis[0];
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint16_t* const from =
        x + (row[half].base + row[half].h * p.x_at.axis[1] + row[half].w * p.x_at.axis[0]);
    std::uint16_t bits[8];
#pragma unroll
    for (std::uint32_t i = 0; i < 8; ++i) {
      const bool inside =
          row[half].exists && first + i < p.terms && is_inside(p, row[half].h + h[i], row[half].w + v[i]);
      bits[i] = inside ? __ldg(from + x_offset[i]) : 0;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) word_of(f->a[half], i) = __byte_perm(bits[2 * i], bits[2 * i + 1], 0x5410);
  }
#pragma unroll
  for (int j = 0; j < kGroups; ++j) {
    const std::uint32_t n = first_filter + static_cast<std::uint32_t>(j * 8);
    const std::uint16_t* const from = w + static_cast<std::int32_t>(n) * p.w_at.image;
    if (p.w_vectors) {
      f->b[j] = load_16(from + first, n < p.filters && first < p.terms);
      continue;
    }
    std::uint16_t bits[8];
#pragma unroll
    for (std::uint32_t i = 0; i < 8; ++i)
      bits[i] = n < p.filters && first + i < p.terms ? __ldg(from + w_offset[i]) : 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) word_of(f->b[j], i) = __byte_perm(bits[2 * i], bits[2 * i + 1], 0x5410);
  }
}

template <bool kIsBf16>
__device__ __forceinline__ void multiply_chunk(const Fragments& f, float (&sum)[kGroups][4]) {
  const std::uint32_t a[2][4] = {{f.a[0].x, f.a[1].x, f.a[0].y, f.a[1].y}, {f.a[0].z, f.a[1].z, f.a[0].w, f.a[1].w}};
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    if constexpr (kIsBf16) {
      ptx::mma_m16n8k16_bf16(sum[i], a[0], f.b[i].x, f.b[i].y);
      ptx::mma_m16n8k16_bf16(sum[i], a[1], f.b[i].z, f.b[i].w);
    } else {
      ptx::mma_m16n8k16_f16(sum[i], a[0], f.b[i].x, f.b[i].y);
      ptx::mma_m16n8k16_f16(sum[i], a[1], f.b[i].z, f.b[i].w);
    }
  }
}

__device__ __forceinline__ std::int32_t place_of(const Params& p, const Image& at, std::uint32_t pixel) {
  std::uint32_t w = 0;
  std::uint32_t h = 0;
  const std::uint32_t image = p.extent[1].divmod(p.extent[0].divmod(pixel, &w), &h);
  return static_cast<std::int32_t>(image) * at.image + static_cast<std::int32_t>(h) * at.axis[1] +
         static_cast<std::int32_t>(w) * at.axis[0];
}

// N neighbouring filters of a pixel.
template <class T, int N>
__device__ __forceinline__ void finish(const Params& p, std::uint32_t pixel, std::uint32_t filter, float (&v)[N]) {
  T* const y = static_cast<T*>(p.y) + (place_of(p, p.y_at, pixel) + static_cast<std::int32_t>(filter) * p.y_at.channel);
  if (!p.is_plain) {
    const T* const addend = static_cast<const T*>(p.addend) + place_of(p, p.addend_at, pixel);
#pragma unroll
    for (std::uint32_t i = 0; i < N; ++i) {
      v[i] *= p.alpha;
      if (p.addend_scale != 0.0f) {
        v[i] +=
            p.addend_scale * tile::widen<float>(addend[static_cast<std::int32_t>(filter + i) * p.addend_at.channel]);
      }
      if (p.has_bias) {
        v[i] += gemm::channel_value<T>(p.bias, static_cast<std::int64_t>(filter + i) * p.bias_step, p.float_vectors);
      }
    }
    if (p.activation.mode == gemm::Activation::relu) gemm::activate_relu(p.activation, v);
  }
  if constexpr (N == 1) {
    *y = tile::narrow<T>(v[0]);
  } else {
    tile::store_pack<T, N>(y, tile::narrow_pack<T>(v));
  }
}

template <int N>
__device__ __forceinline__ void finish(const Params& p, std::uint32_t pixel, std::uint32_t filter, float (&v)[N]) {
  if (p.is_bf16) {
    finish<tile::BFloat16, N>(p, pixel, filter, v);
  } else {
    finish<tile::Half, N>(p, pixel, filter, v);
  }
}

// The type is told at run time, so that there is half of the code to keep.
template <bool kVectors>
__global__ void __launch_bounds__(kThreads) sliced_k_sm80(const __grid_constant__ Params p) {
  __shared__ float shared[kWarps][kTilePixels][kRowFloats];
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t slices = 1u << p.slice_shift;
  const std::uint32_t rows = kTilePixels * (kWarps >> p.slice_shift);  // of the block
  const std::uint32_t first_pixel = blockIdx.x * rows;
  const std::uint32_t first_filter = blockIdx.y * kTileFilters;
  const std::uint32_t pixel = first_pixel + (warp >> p.slice_shift) * kTilePixels + lane / 4;
  const Row row[2] = {row_at(p, pixel), row_at(p, pixel + 8)};

  constexpr std::uint32_t kAtOnce = at_once(kVectors);
  float sum[kGroups][4] = {};
  for (std::uint32_t chunk = warp & (slices - 1); chunk < p.chunks; chunk += slices * kAtOnce) {
    Fragments f[kAtOnce];
#pragma unroll
    for (std::uint32_t i = 0; i < kAtOnce; ++i) {
      if constexpr (kVectors) {
        load_vectors(p, row, first_filter + lane / 4, chunk + i * slices, &f[i]);
      } else {
        load_elements(p, row, first_filter + lane / 4, chunk + i * slices, &f[i]);
      }
    }
    if (p.is_bf16) {
#pragma unroll
      for (std::uint32_t i = 0; i < kAtOnce; ++i) multiply_chunk<true>(f[i], sum);
    } else {
#pragma unroll
      for (std::uint32_t i = 0; i < kAtOnce; ++i) multiply_chunk<false>(f[i], sum);
    }
  }

#pragma unroll
  for (std::uint32_t i = 0; i < kGroups; ++i) {
    *reinterpret_cast<float2*>(&shared[warp][lane / 4][i * 8 + lane % 4 * 2]) = make_float2(sum[i][0], sum[i][1]);
    *reinterpret_cast<float2*>(&shared[warp][lane / 4 + 8][i * 8 + lane % 4 * 2]) = make_float2(sum[i][2], sum[i][3]);
  }
  __syncthreads();
  const auto add_up = [&](std::uint32_t at, std::uint32_t column) {
    float total = 0;
    for (std::uint32_t i = 0; i < slices; ++i) {
      total += shared[(at / kTilePixels << p.slice_shift) + i][at % kTilePixels][column];
    }
    return total;
  };
  if (p.y_vectors) {
    for (std::uint32_t i = threadIdx.x; i < rows * kGroups; i += kThreads) {
      const std::uint32_t at = i / kGroups;
      const std::uint32_t column = i % kGroups * 8;
      if (first_pixel + at >= p.pixels || first_filter + column >= p.filters) continue;
      float v[8];
#pragma unroll
      for (std::uint32_t j = 0; j < 8; ++j) v[j] = add_up(at, column + j);
      finish<8>(p, first_pixel + at, first_filter + column, v);
    }
    return;
  }
  // Along the pixels, which are neighbours where channels are not.
  for (std::uint32_t i = threadIdx.x; i < rows * kTileFilters; i += kThreads) {
    const std::uint32_t at = i % rows;
    const std::uint32_t column = i / rows;
    if (first_pixel + at >= p.pixels || first_filter + column >= p.filters) continue;
    float v[1] = {add_up(at, column)};
    finish<1>(p, first_pixel + at, first_filter + column, v);
  }
}

}  // namespace gpudnn::kernels::sliced_k
