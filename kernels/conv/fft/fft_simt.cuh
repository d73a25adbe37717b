// The transforms of the Fourier convolution. The mathematics is in fft_simt.hpp.
//
// Data flow of a block, which has items_of(T) tiles or channels that are neighbours in the transform:
//   forward:  rows global -> shared (lanes along the row, zeros outside of the image and of the window)
//             two rows -> a thread, as real and imaginary part of one transform -> T/2 + 1 frequencies of each ->
//             shared a column of frequencies -> a thread -> transform -> shared frequencies shared -> global, the
//             neighbours' values of each side by side
//   inverse:  the same backwards; the epilogue stores rows, lanes along the row
// A row of a tile in shared memory has the real parts of its frequencies, then the imaginary ones, and a pad that
// spreads rows over the banks.
//
// Limits: T = 16, 32, 64. An infinity or a NaN reaches the whole tile of the result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fft/fft_butterflies.cuh"
#include "kernels/conv/fft/fft_finish.cuh"
#include "kernels/conv/fft/fft_simt.hpp"

namespace gpudnn::kernels::fft {

template <int kT>
struct Shape {
  static constexpr int kHalf = kT / 2 + 1;  // frequencies of a row
  static constexpr int kItems = items_of(kT);
  static constexpr int kRow = 2 * kHalf + 1;  // floats of a row in shared memory
  static constexpr int kTile = kT * kRow + 1;
  static constexpr int kThreads = (kItems * kHalf + 31) / 32 * 32;
};

// The tile and channel of one of a block's items.
struct Place {
  std::uint32_t image = 0, row = 0, column = 0, group = 0, channel = 0;
  std::int32_t tile, all_channels;
  bool inside = false;

  __device__ __forceinline__ Place(const Tiles& tiles, int item, int items) {
    const int x = static_cast<int>(blockIdx.x);
    const int y = static_cast<int>(blockIdx.y);
    tile = tiles.along_channels ? x : x * items + item;
    all_channels = tiles.along_channels ? y * items + item : y;
    inside = tile < tiles.count && all_channels < tiles.channels;
    if (!inside) return;
    const auto global = static_cast<std::uint32_t>(tiles.first) + static_cast<std::uint32_t>(tile);
    image = tiles.per_column.divmod(tiles.per_row.divmod(global, &column), &row);
    group = tiles.group_channels.divmod(static_cast<std::uint32_t>(all_channels), &channel);
  }
  __device__ __forceinline__ std::int64_t offset(const Spectrum& s) const {
    return group * s.group + channel * s.channel + tile * s.tile;
  }
  __device__ __forceinline__ std::int64_t offset(const Image& i) const {
    return image * i.n + group * i.group + channel * i.channel;
  }
};

// Elements of the block's tiles, lanes along rows: use(place, row, column, inside of the image, shared element).
template <int kT, class Use>
__device__ __forceinline__ void for_each_element(const Tiles& tiles, const Image& image, float* shared, Use use) {
  using S = Shape<kT>;
#pragma unroll 1
  for (int item = 0; item < S::kItems; ++item) {
    const Place at(tiles, item, S::kItems);
    const int h0 = tiles.origin_h + static_cast<int>(at.row) * tiles.step_h;
    const int w0 = tiles.origin_w + static_cast<int>(at.column) * tiles.step_w;
    for (int i = static_cast<int>(threadIdx.x); i < kT * kT; i += S::kThreads) {
      const int r = i / kT;
      const int c = i % kT;
      const bool inside = at.inside && r < tiles.window_h && c < tiles.window_w &&
                          static_cast<unsigned>(h0 + r) < static_cast<unsigned>(image.height) &&
                          static_cast<unsigned>(w0 + c) < static_cast<unsigned>(image.width);
      use(at, h0 + r, w0 + c, inside, shared + item * S::kTile + r * S::kRow + c);
    }
  }
}

// Columns of frequencies, a thread each; kInverse: exchanges the parts on both sides.
template <int kT, bool kInverse>
__device__ __forceinline__ void transform_columns(float* shared) {
  using S = Shape<kT>;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= S::kItems * S::kHalf) return;
  float* const column = shared + thread / S::kHalf * S::kTile + thread % S::kHalf;
  constexpr int kReal = kInverse ? S::kHalf : 0;
  constexpr int kImaginary = kInverse ? 0 : S::kHalf;
  float re[kT];
  float im[kT];
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    re[i] = column[i * S::kRow + kReal];
    im[i] = column[i * S::kRow + kImaginary];
  }
  transform(re, im);
#pragma unroll
  for (int k = 0; k < kT; ++k) {
    column[k * S::kRow + kReal] = re[bit_reversed<kT>(k)];
    column[k * S::kRow + kImaginary] = im[bit_reversed<kT>(k)];
  }
}

// Two real rows a thread: z = first + i second has Z(k) = first(k) + i second(k), and conj(Z(-k)) = first(k) -
// i second(k).
template <int kT>
__device__ __forceinline__ void transform_rows(float* shared) {
  using S = Shape<kT>;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= S::kItems * (kT / 2)) return;
  float* const first = shared + thread / (kT / 2) * S::kTile + thread % (kT / 2) * 2 * S::kRow;
  float* const second = first + S::kRow;
  float re[kT];
  float im[kT];
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    re[i] = first[i];
    im[i] = second[i];
  }
  transform(re, im);
#pragma unroll
  for (int k = 0; k < S::kHalf; ++k) {
    const int at = bit_reversed<kT>(k);
    const int mirrored = bit_reversed<kT>((kT - k) % kT);
    first[k] = 0.5f * (re[at] + re[mirrored]);
    first[S::kHalf + k] = 0.5f * (im[at] - im[mirrored]);
    second[k] = 0.5f * (im[at] + im[mirrored]);
    second[S::kHalf + k] = 0.5f * (re[mirrored] - re[at]);
  }
}

template <int kT>
__device__ __forceinline__ void transform_rows_back(float* shared) {
  using S = Shape<kT>;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= S::kItems * (kT / 2)) return;
  float* const first = shared + thread / (kT / 2) * S::kTile + thread % (kT / 2) * 2 * S::kRow;
  float* const second = first + S::kRow;
  float re[kT];
  float im[kT];
#pragma unroll
  for (int k = 0; k < kT; ++k) {
    const int at = k < S::kHalf ? k : kT - k;
    const float sign = k < S::kHalf ? 1.0f : -1.0f;
    // The frequencies 0 and T/2 of a real row are real; what rounding left of the other part is dropped.
    const bool is_real = k == 0 || k == kT / 2;
    const float first_im = is_real ? 0.0f : sign * first[S::kHalf + at];
    const float second_im = is_real ? 0.0f : sign * second[S::kHalf + at];
    // Exchanged for the inverse.
    im[k] = first[at] - second_im;
    re[k] = first_im + second[at];
  }
  transform(re, im);
#pragma unroll
  for (int i = 0; i < kT; ++i) {
    first[i] = im[bit_reversed<kT>(i)];
    second[i] = re[bit_reversed<kT>(i)];
  }
}

template <int kT>
__global__ void __launch_bounds__(Shape<kT>::kThreads) fft_forward_simt(const ForwardParams p) {
  using S = Shape<kT>;
  __shared__ float shared[S::kItems * S::kTile];
  for_each_element<kT>(p.tiles, p.image, shared, [&](const Place& at, int h, int w, bool inside, float* to) {
    *to = inside ? __ldg(p.in + at.offset(p.image) + h * p.image.h + w * p.image.w) : 0.0f;
  });
  __syncthreads();
  transform_rows<kT>(shared);
  __syncthreads();
  transform_columns<kT, false>(shared);
  __syncthreads();
  const int item = static_cast<int>(threadIdx.x) % S::kItems;
  const Place at(p.tiles, item, S::kItems);
  if (!at.inside) return;
  float* const out = p.out + at.offset(p.spectrum);
  for (int f = static_cast<int>(threadIdx.x) / S::kItems; f < kT * S::kHalf; f += S::kThreads / S::kItems) {
    const float* const from = shared + item * S::kTile + f / S::kHalf * S::kRow + f % S::kHalf;
    const float re = from[0];
    const float im = from[S::kHalf];
    float* const to = out + f * p.spectrum.frequency;
    if (p.spectrum.expanded == 0) {
      to[0] = re;
      to[p.spectrum.imaginary] = im;
    } else {
      to[0] = re;
      to[p.spectrum.expanded] = -im;
      to[p.spectrum.imaginary] = im;
      to[p.spectrum.imaginary + p.spectrum.expanded] = re;
    }
  }
}

template <int kT>
__global__ void __launch_bounds__(Shape<kT>::kThreads) fft_inverse_simt(const __grid_constant__ InverseParams p) {
  using S = Shape<kT>;
  __shared__ float shared[S::kItems * S::kTile];
  const int item = static_cast<int>(threadIdx.x) % S::kItems;
  const Place at(p.tiles, item, S::kItems);
  constexpr float kScale = 1.0f / (kT * kT);
  for (int f = static_cast<int>(threadIdx.x) / S::kItems; f < kT * S::kHalf; f += S::kThreads / S::kItems) {
    float re = 0;
    float im = 0;
    if (at.inside) {
      const float* from = p.in + at.offset(p.spectrum) + f * p.spectrum.frequency;
      for (int split = 0; split < p.splits; ++split, from += p.split) {
        re += __ldg(from);
        im += __ldg(from + p.spectrum.imaginary);
      }
    }
    float* const to = shared + item * S::kTile + f / S::kHalf * S::kRow + f % S::kHalf;
    to[0] = re * kScale;
    to[S::kHalf] = im * kScale;
  }
  __syncthreads();
  transform_columns<kT, true>(shared);
  __syncthreads();
  transform_rows_back<kT>(shared);
  __syncthreads();
  for_each_element<kT>(p.tiles, p.image, shared, [&](const Place& to, int h, int w, bool inside, const float* from) {
    if (!inside) return;
    float value = *from;
    if (!p.is_plain) {
      value =
          finish(p, to.all_channels, to.offset(p.addend_image) + h * p.addend_image.h + w * p.addend_image.w, value);
    }
    static_cast<float*>(p.out)[to.offset(p.image) + h * p.image.h + w * p.image.w] = value;
  });
}

}  // namespace gpudnn::kernels::fft
