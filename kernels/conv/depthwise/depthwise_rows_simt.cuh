// Depthwise convolution with any filter, step and dilation: forward and data gradient, of images and of volumes.
//
// The block goes over the rows of the filter together, each of which lies in shared memory for all of its channels.
// With step 1 a thread has kColumns windows of a row and slides along the image: an element that was loaded once meets
// as many taps. With other steps it has one window. In the data gradient of such (`transposed`) a window is a pixel of
// dx, and the taps whose position is no multiple of the stride are left out.
//
// An element of the image that does not exist counts as zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/depthwise_simt.cuh"

namespace gpudnn::kernels::depthwise {

// Row r of slice t of the filter of the block's channels: channel by channel, as stage_filter has them.
template <class T, class I>
__device__ __forceinline__ void stage_filter_row(const Params& p, std::uint32_t channel_block, int t, int r,
                                                 float* shared) {
  const auto width = static_cast<std::uint32_t>(p.w.taps);
  const std::uint32_t channels = p.lanes_c.divisor * I::kVector;
  const std::uint32_t first = channel_block * channels;
  const int from_r = p.mirrored ? p.h.taps - 1 - r : r;
  const T* const slice = static_cast<const T*>(p.filter) + (p.mirrored ? p.d.taps - 1 - t : t) * p.filter_t;
  for (std::uint32_t i = threadIdx.x; i < channels * width; i += blockDim.x) {
    const std::uint32_t channel = i / width;
    const std::uint32_t s = i % width;
    float value = 0;
    if (first + channel < p.channels) {
      const std::uint32_t from_s = p.mirrored ? width - 1 - s : s;
      value = tile::widen<float>(
          slice[(first + channel) * p.filter_k + from_r * p.filter_r + static_cast<int>(from_s) * p.filter_s]);
    }
    shared[shared_channel<I::kVector>(p, channel / I::kVector, static_cast<int>(channel % I::kVector)) * width + s] =
        value;
  }
}

// Where tap `tap` of window `window` lies in the image, or -1.
__device__ __forceinline__ int image_position(const Params& p, const Axis& axis, int window, int tap) {
  int at = 0;
  if (p.transposed) {
    at = window + axis.pad - tap * axis.dilation;
    if (at < 0 || at % axis.stride != 0) return -1;
    at /= axis.stride;
  } else {
    at = window * axis.stride - axis.pad + tap * axis.dilation;
  }
  return static_cast<unsigned>(at) < static_cast<unsigned>(axis.image) ? at : -1;
}

template <class T, int kV>
__device__ __forceinline__ void load_element(const T* row, int at, int extent, int step, float (&x)[kV]) {
  tile::Pack<T, kV> pack = {};
  if (static_cast<unsigned>(at) < static_cast<unsigned>(extent)) {
    pack = tile::load_pack<T, kV>(row + static_cast<std::int64_t>(at) * step);
  }
  tile::widen_pack<float>(pack, x);
}

// Adds a row of taps to the windows of a thread, which slide: x[(i + j) % kColumns] is element i + j.
template <class T, class I>
__device__ __forceinline__ void slide(const Params& p, const T* row, int column, const float* const (&taps)[I::kVector],
                                      float (&sums)[I::kColumns][I::kVector]) {
  constexpr int kV = I::kVector;
  constexpr int kColumns = I::kColumns;
  float x[kColumns][kV];
#pragma unroll
  for (int j = 0; j + 1 < kColumns; ++j) {
    load_element<T, kV>(row, column + j * p.w.dilation, p.w.image, p.image_steps.w, x[j]);
  }
  for (int first = 0; first < p.w.taps; first += kColumns) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int s = first + i;
      if (s >= p.w.taps) break;
      load_element<T, kV>(row, column + (s + kColumns - 1) * p.w.dilation, p.w.image, p.image_steps.w,
                          x[(i + kColumns - 1) % kColumns]);
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        const float tap = taps[v][s];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[j][v] += x[(i + j) % kColumns][v] * tap;
      }
    }
  }
}

template <class T, class I>
__device__ __forceinline__ void add_taps(const Params& p, const T* row, int window,
                                         const float* const (&taps)[I::kVector], float (&sums)[1][I::kVector]) {
  constexpr int kV = I::kVector;
  for (int s = 0; s < p.w.taps; ++s) {
    const int at = image_position(p, p.w, window, s);
    if (at < 0) continue;
    float x[kV];
    load_element<T, kV>(row, at, p.w.image, p.image_steps.w, x);
#pragma unroll
    for (int v = 0; v < kV; ++v) sums[0][v] += x[v] * taps[v][s];
  }
}

template <class T, int kRow>
__global__ void __launch_bounds__(kMaxThreads, kTiles[kRow].min_blocks) rows_kernel(const __grid_constant__ Params p) {
  using I = Instance<kRow>;
  constexpr int kV = I::kVector;
  constexpr bool kSlides = I::kTile.stride == 1;
  auto* const shared = reinterpret_cast<float*>(tile::dynamic_shared());
  std::uint32_t channel_block = 0;
  const std::uint32_t unit_block = p.channel_blocks.divmod(blockIdx.x, &channel_block);
  const Lane lane = lane_of(p);
  const std::uint32_t channel = (channel_block * p.lanes_c.divisor + lane.vector) * kV;
  const std::uint32_t index = unit_block * p.lanes_s.divisor + lane.unit;
  const bool works = lane.exists && channel < p.channels && index < p.units;
  const Unit unit = unit_in_volume(p, works ? index : 0);
  const float* taps[kV];
#pragma unroll
  for (int v = 0; v < kV; ++v) {
    taps[v] = shared + (lane.exists ? shared_channel<kV>(p, lane.vector, v) : 0) * static_cast<std::uint32_t>(p.w.taps);
  }
  const T* const image = static_cast<const T*>(p.image) +
                         Target<T>::offset(p.image_steps, unit.n, p.multiplier.quotient(works ? channel : 0), 0, 0);
  float sums[I::kColumns][kV] = {};
  int t = 0;
  int r = 0;
  for (int i = 0; i < p.d.taps * p.h.taps; ++i) {
    __syncthreads();
    stage_filter_row<T, I>(p, channel_block, t, r, shared);
    __syncthreads();
    const int slice = image_position(p, p.d, unit.slice, t);
    const int row = image_position(p, p.h, unit.row, r);
    if (++r == p.h.taps) {
      r = 0;
      ++t;
    }
    if (!works || row < 0 || slice < 0) continue;
    const T* const from =
        image + static_cast<std::int64_t>(row) * p.image_steps.h + static_cast<std::int64_t>(slice) * p.image_steps.d;
    if constexpr (kSlides) {
      slide<T, I>(p, from, unit.column - p.w.pad, taps, sums);
    } else {
      add_taps<T, I>(p, from, unit.column, taps, sums);
    }
  }
  if (!works || unit.row >= p.h.rows) return;
  float bias[kV];
  load_bias<T>(p, channel, bias);
  const Target<T> target(p, unit.n, channel, unit.row, unit.column, unit.slice);
#pragma unroll
  for (int j = 0; j < I::kColumns; ++j) {
    if (unit.column + j * p.w.step >= p.w.rows) continue;
    store_sum<T, kV>(p, sums[j], bias, target.addend + static_cast<std::int64_t>(j) * p.w.step * p.addend_steps.w,
                     target.out + static_cast<std::int64_t>(j) * p.w.step * p.rows_steps.w);
  }
}

}  // namespace gpudnn::kernels::depthwise
