// The epilogue of the Hopper convolution of integers: from the sums in registers to y.
//
// A thread has two neighbouring columns of each group of eight. Of 8-bit outputs, four threads of a row exchange theirs
// over four groups, so that each has eight neighbouring bytes and they write 32 together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/integer/integer_sm90_shape.cuh"
#include "kernels/conv/integer/integer_store.cuh"
#include "kernels/tile/transpose_quad.cuh"

namespace gpudnn::kernels::integer {

// What a thread knows of its rows of the tile.
template <class S>
struct Sm90Rows {
  std::int64_t y[S::kRowBlocks][2];  // elements from the start; negative where there is no such pixel
  std::int64_t addend[S::kRowBlocks][2];
};
template <class S>
__device__ __forceinline__ Sm90Rows<S> rows_of(const Sm90Params& params, std::uint32_t first_pixel) {
  const Params& p = params.p;
  Sm90Rows<S> rows;
#pragma unroll
  for (int block = 0; block < S::kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t m = first_pixel + static_cast<std::uint32_t>(block * 64 + half * 8) +
                              threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
      rows.y[block][half] = -1;
      rows.addend[block][half] = 0;
      if (m >= p.pixels) continue;
      rows.y[block][half] =
          params.y_is_even ? static_cast<std::int64_t>(m) * p.y_at.spatial[0] : offset_in(p.y_at, pixel_of(p, m));
      if (!p.epilogue.adds) continue;
      rows.addend[block][half] = params.addend_is_even ? static_cast<std::int64_t>(m) * p.addend_at.spatial[0]
                                                       : offset_in(p.addend_at, pixel_of(p, m));
    }
  }
  return rows;
}

// 32 columns from `column` on, 8 of each group of 8 a thread's two. kPlain: no scale of channels, addend or slope.
template <class S, bool kPlain>
__device__ __forceinline__ void store_columns(const Sm90Params& params, const Sm90Rows<S>& rows, std::uint32_t group,
                                              std::uint32_t column, const std::int32_t (&sum)[S::kRowBlocks][16]) {
  const Params& p = params.p;
  const Epilogue& e = p.epilogue;
  const std::uint32_t thread = threadIdx.x % 4;
  const bool narrow = e.out == OutType::i8 || e.out == OutType::u8;
  float bias[8];
  float scale[8];
#pragma unroll
  for (std::uint32_t i = 0; i < 8; ++i) {
    const std::uint32_t n = column + i / 2 * 8 + thread * 2 + i % 2;
    const std::int64_t k = static_cast<std::int64_t>(group * p.filters + n);
    bias[i] = e.has_bias && n < p.filters ? p.bias[k * e.bias_stride] : 0.0f;
    scale[i] = !kPlain && e.has_scale && n < p.filters ? p.scale[k * e.scale_stride] : 1.0f;
  }
  const float least = e.out == OutType::u8 ? 0.0f : -128.0f;
  const float greatest = e.out == OutType::u8 ? 255.0f : 127.0f;
  const float lower = e.has_relu ? fmaxf(e.lower, least) : least;
  const float upper = e.has_relu ? fminf(e.upper, greatest) : greatest;
#pragma unroll
  for (int block = 0; block < S::kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = rows.y[block][half];
      const std::int64_t first_channel = static_cast<std::int64_t>(group * p.filters + column);
      float value[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const std::int32_t s = sum[block][i / 2 * 4 + half * 2 + i % 2];
        if constexpr (kPlain) {
          value[i] = fmaf(e.alpha, static_cast<float>(s), bias[i]);
        } else {
          const std::uint32_t n = column + static_cast<std::uint32_t>(i / 2 * 8 + i % 2) + thread * 2;
          float addend = 0;
          if (e.adds && row >= 0 && n < p.filters) {
            addend = as_float(
                e.out, load_element(p.addend, !narrow,
                                    rows.addend[block][half] + static_cast<std::int64_t>(group * p.filters + n)));
          }
          value[i] = finished(e, s, scale[i], addend, bias[i]);
        }
      }
      if (narrow) {
        std::uint32_t bits[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) bits[i] = low_byte_of(fminf(fmaxf(value[i], lower), upper));
        const std::uint32_t pairs_01 =
            __byte_perm(__byte_perm(bits[0], bits[1], 0x0040), __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
        const std::uint32_t pairs_23 =
            __byte_perm(__byte_perm(bits[4], bits[5], 0x0040), __byte_perm(bits[6], bits[7], 0x0040), 0x5410);
        const uint2 bytes = tile::transpose_quad(pairs_01, pairs_23);
        if (row >= 0 && column + thread * 8 < p.filters) {
          *reinterpret_cast<uint2*>(static_cast<std::int8_t*>(p.y) + row + first_channel + thread * 8) = bytes;
        }
      } else if (row >= 0) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t n = column + static_cast<std::uint32_t>(j * 8) + thread * 2;
          if (n >= p.filters) continue;
          uint2 pair;
          const float v[2] = {kPlain && e.has_relu ? relu_of(e, value[2 * j]) : value[2 * j],
                              kPlain && e.has_relu ? relu_of(e, value[2 * j + 1]) : value[2 * j + 1]};
          pair.x = bits_of(e, sum[block][j * 4 + half * 2], v[0]);
          pair.y = bits_of(e, sum[block][j * 4 + half * 2 + 1], v[1]);
          *reinterpret_cast<uint2*>(static_cast<std::uint32_t*>(p.y) + row +
                                    static_cast<std::int64_t>(group * p.filters + n)) = pair;
        }
      }
    }
  }
}

template <class S, bool kPlain>
__device__ __forceinline__ void store_sums(const Sm90Params& params, const Sm90Work& work, int consumer,
                                           const Sm90Sums<S>& sum) {
  const std::uint32_t first = S::kPingPong ? 0u : static_cast<std::uint32_t>(consumer * S::kRowBlocks * 64);
  const Sm90Rows<S> rows = rows_of<S>(params, work.m * S::kBM + first);
#pragma unroll
  for (int q = 0; q < S::kBN / 32; ++q) {
    std::int32_t part[S::kRowBlocks][16];
#pragma unroll
    for (int block = 0; block < S::kRowBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 16; ++i) part[block][i] = sum[block][q * 16 + i];
    }
    store_columns<S, kPlain>(params, rows, work.group, work.n * S::kBN + static_cast<std::uint32_t>(q) * 32, part);
  }
}

}  // namespace gpudnn::kernels::integer
