// The convolution of sliced_k_sm80.cuh of one tap where pixels are neighbours and channels apart (NCHW), no padding, no
// stride:
//
//   y[k, p] = sum over c of w[k, c] * x[c, p]
//
// The filters are the 16 rows of a product, 32 neighbouring pixels of an image the columns of four. A lane takes 16
// bytes of a filter, 8 channels, of which the first four stand for those that mma.sync wants in it in the chunk's first
// product, the others in the second; and 8 pixels of four channels, whose pairs movmatrix turns into the columns of
// operand b: row i of its matrix t is channel i / 2 * 8 + i % 2 + 2 t of the chunk, and column 2q + e of group g pixel
// 8q + 2g + e. So a lane has the sums of 8 neighbouring pixels.
//
// All warps of a block share a tile's terms. Limits: as sliced_k_sm80.cuh; planes of whole vectors of 8 pixels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/conv/sliced_k/sliced_k_sm80.cuh"
#include "kernels/ptx/movmatrix.cuh"

namespace gpudnn::kernels::sliced_k {

constexpr int kPixelGroups = 4;

template <bool kIsBf16>
__global__ void __launch_bounds__(kThreads) sliced_k_planes_sm80(const __grid_constant__ Params p) {
  using T = std::conditional_t<kIsBf16, tile::BFloat16, tile::Half>;
  constexpr int kFilterTiles = kTileFilters / 16;
  __shared__ float shared[kWarps][kTileFilters][kPlanePixels + 4];
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t quarter = lane % 4;
  std::uint32_t pixel_tile = 0;
  const std::uint32_t image = p.plane_tiles.divmod(blockIdx.x, &pixel_tile);
  const std::uint32_t first_pixel = pixel_tile * kPlanePixels;
  const std::uint32_t first_filter = blockIdx.y * kTileFilters;

  const std::uint32_t share = (p.chunks + kWarps - 1) / kWarps;
  const std::uint32_t begin = warp * share;
  const std::uint32_t end = min(begin + share, p.chunks);
  const auto* const x = static_cast<const std::uint16_t*>(p.x) +
                        std::uint64_t{image} * static_cast<std::uint32_t>(p.x_at.image) +
                        min(first_pixel + quarter * 8, p.plane_pixels - 8);
  const std::uint16_t* w[kFilterTiles][2];
#pragma unroll
  for (std::uint32_t i = 0; i < kFilterTiles * 2; ++i) {
    const std::uint32_t filter = min(first_filter + i * 8 + lane / 4, p.filters - 1);
    w[i / 2][i % 2] =
        static_cast<const std::uint16_t*>(p.w) + std::uint64_t{filter} * static_cast<std::uint32_t>(p.w_at.image);
  }

  float sum[kFilterTiles][kPixelGroups][4] = {};
#pragma unroll 2
  for (std::uint32_t chunk = begin; chunk < end; ++chunk) {
    uint4 a[kFilterTiles][2];
    uint4 b[4];
    const std::uint32_t of_filter = chunk * kChunk + quarter * 8;
#pragma unroll
    for (int i = 0; i < kFilterTiles; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) a[i][half] = load_16(w[i][half] + of_filter, of_filter < p.terms);
    }
#pragma unroll
    for (std::uint32_t t = 0; t < 4; ++t) {
      const std::uint32_t channel = chunk * kChunk + lane / 8 * 8 + lane / 4 % 2 + 2 * t;
      b[t] = load_16(x + std::uint64_t{channel} * static_cast<std::uint32_t>(p.x_at.channel), channel < p.terms);
    }
#pragma unroll
    for (int group = 0; group < kPixelGroups; ++group) {
      std::uint32_t column[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) column[t] = ptx::movmatrix_trans(word_of(b[t], group));
#pragma unroll
      for (int i = 0; i < kFilterTiles; ++i) {
        const std::uint32_t first[4] = {a[i][0].x, a[i][1].x, a[i][0].y, a[i][1].y};
        const std::uint32_t second[4] = {a[i][0].z, a[i][1].z, a[i][0].w, a[i][1].w};
        if constexpr (kIsBf16) {
          ptx::mma_m16n8k16_bf16(sum[i][group], first, column[0], column[1]);
          ptx::mma_m16n8k16_bf16(sum[i][group], second, column[2], column[3]);
        } else {
          ptx::mma_m16n8k16_f16(sum[i][group], first, column[0], column[1]);
          ptx::mma_m16n8k16_f16(sum[i][group], second, column[2], column[3]);
        }
      }
    }
  }

#pragma unroll
  for (std::uint32_t i = 0; i < kFilterTiles * 2; ++i) {
    auto* const to = reinterpret_cast<float4*>(&shared[warp][i * 8 + lane / 4][quarter * 8]);
    const auto& s = sum[i / 2];
    const std::uint32_t q = i % 2 * 2;
    to[0] = make_float4(s[0][q], s[0][q + 1], s[1][q], s[1][q + 1]);
    to[1] = make_float4(s[2][q], s[2][q + 1], s[3][q], s[3][q + 1]);
  }
  __syncthreads();
  // Four pixels of a filter for each thread.
  constexpr std::uint32_t kVectors = kPlanePixels / 4;
  static_assert(kTileFilters * kVectors == kThreads, "a vector for each thread");
  const std::uint32_t row = threadIdx.x / kVectors;
  const std::uint32_t column = threadIdx.x % kVectors * 4;
  const std::uint32_t filter = first_filter + row;
  const std::uint32_t pixel = first_pixel + column;
  if (filter >= p.filters || pixel >= p.plane_pixels) return;
  float v[4] = {};
#pragma unroll
  for (int j = 0; j < kWarps; ++j) {
    const float4 add = *reinterpret_cast<const float4*>(&shared[j][row][column]);
    v[0] += add.x, v[1] += add.y, v[2] += add.z, v[3] += add.w;
  }
  const auto at = [&](const Image& of) {
    return std::uint64_t{image} * static_cast<std::uint32_t>(of.image) +
           std::uint64_t{filter} * static_cast<std::uint32_t>(of.channel) + pixel;
  };
  if (!p.is_plain) {
    const T* const addend = static_cast<const T*>(p.addend) + at(p.addend_at);
    const float bias = p.has_bias ? gemm::channel_value<T>(p.bias, filter * p.bias_step, p.float_vectors) : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] *= p.alpha;
      if (p.addend_scale != 0.0f) v[i] += p.addend_scale * tile::widen<float>(addend[i]);
      v[i] += bias;
    }
    if (p.activation.mode == gemm::Activation::relu) gemm::activate_relu(p.activation, v);
  }
  tile::store_pack<T, 4>(static_cast<T*>(p.y) + at(p.y_at), tile::narrow_pack<T>(v));
}

}  // namespace gpudnn::kernels::sliced_k
