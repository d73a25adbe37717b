// Float convolution of few terms an output, as those of LeNet: a thread sums an output pixel of one or four channels.
//
// Data flow of a block: the filters of its channels -> shared memory, in the order in which they are met; a thread then
// loads the elements under its window one by one, of which neighbours in a row are another thread's (the L1 has them),
// and multiplies each with the one or four factors that all threads of a warp read alike. Where pixels are few, up to
// eight threads share the channels of a sum; theirs are added in order in shared memory.
//
// With 9 x 9 taps a thread has four pixels, one under the other: it goes down the rows under their windows, and each
// element meets the taps of all of them (few_rows_simt).
//
// Limits: filters 5 wide, of one tap, or 9 x 9; those of a thread's channels within 48 KiB; 31-bit offsets; one group;
// one or two spatial dimensions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/few_terms/few_terms_simt.hpp"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/ptx/prefetch_l2.cuh"

namespace gpudnn::kernels::few_terms {

struct Place {
  std::uint32_t image, h, w;
};
__device__ __forceinline__ Place place_of(const Params& p, std::uint32_t pixel) {
  Place at;
  at.image = p.extent[1].divmod(p.extent[0].divmod(pixel, &at.w), &at.h);
  return at;
}
__device__ __forceinline__ std::int32_t offset_of(const Image& image, const Place& at) {
  return static_cast<std::int32_t>(at.image) * image.image + static_cast<std::int32_t>(at.h) * image.axis[1] +
         static_cast<std::int32_t>(at.w) * image.axis[0];
}

// Of one tap: the loads of several channels are under way at once.
template <int kOutputs>
__device__ __forceinline__ void sum_channels(const Params& p, const Place& at, const float* filter, std::uint32_t slice,
                                             std::uint32_t slices, float (&sum)[kOutputs]) {
  const std::int32_t h = static_cast<std::int32_t>(at.h) * p.stride[1] - p.pad[1];
  const std::int32_t w = static_cast<std::int32_t>(at.w) * p.stride[0] - p.pad[0];
  const bool inside = static_cast<std::uint32_t>(h) < static_cast<std::uint32_t>(p.in_extent[1]) &&
                      static_cast<std::uint32_t>(w) < static_cast<std::uint32_t>(p.in_extent[0]);
  if (!inside) return;
  const float* const from =
      p.in + (static_cast<std::int32_t>(at.image) * p.in_at.image + h * p.in_at.axis[1] + w * p.in_at.axis[0]);
  for (std::uint32_t first = slice; first < p.channels; first += slices * kChannelsAtOnce) {
    float x[kChannelsAtOnce];
#pragma unroll
    for (std::uint32_t i = 0; i < kChannelsAtOnce; ++i) {
      const std::uint32_t c = first + i * slices;
      x[i] = c < p.channels ? __ldg(from + static_cast<std::int32_t>(c) * p.in_at.channel) : 0.0f;
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kChannelsAtOnce; ++i) {
      const std::uint32_t c = first + i * slices;
      if (c >= p.channels) break;
#pragma unroll
      for (int j = 0; j < kOutputs; ++j)
        sum[j] = fmaf(x[i], filter[c * kOutputs + static_cast<std::uint32_t>(j)], sum[j]);
    }
  }
}

template <int kOutputs, int kWidth>
__device__ __forceinline__ void sum_window(const Params& p, const Place& at, const float* filter, std::uint32_t slice,
                                           std::uint32_t slices, float (&sum)[kOutputs]) {
  const std::int32_t h0 = static_cast<std::int32_t>(at.h) * p.stride[1] - p.pad[1];
  const std::int32_t w0 = static_cast<std::int32_t>(at.w) * p.stride[0] - p.pad[0];
  const int rows = static_cast<int>(p.taps[1].divisor);
  const float* const image = p.in + static_cast<std::int32_t>(at.image) * p.in_at.image;
  for (std::uint32_t c = slice; c < p.channels; c += slices) {
    const float* factor = filter + c * static_cast<std::uint32_t>(rows * kWidth * kOutputs);
    const float* const plane = image + static_cast<std::int32_t>(c) * p.in_at.channel;
    for (int r = 0; r < rows; ++r) {
      const std::int32_t h = h0 + r * p.dilation[1];
      const bool in_rows = static_cast<std::uint32_t>(h) < static_cast<std::uint32_t>(p.in_extent[1]);
      const float* const row = plane + h * p.in_at.axis[1];
      const auto tap = [&](int s) {
        const std::int32_t w = w0 + s * p.dilation[0];
        const bool inside = in_rows && static_cast<std::uint32_t>(w) < static_cast<std::uint32_t>(p.in_extent[0]);
        return inside ? __ldg(row + w * p.in_at.axis[0]) : 0.0f;
      };
      const auto add = [&](float x) {
#pragma unroll
        for (int i = 0; i < kOutputs; ++i) sum[i] = fmaf(x, factor[i], sum[i]);
        factor += kOutputs;
      };
      float x[kWidth];
#pragma unroll
      for (int s = 0; s < kWidth; ++s) x[s] = tap(s);
#pragma unroll
      for (int s = 0; s < kWidth; ++s) add(x[s]);
    }
  }
}

// The filters of kOutputs channels from `first` on, to shared memory: channel of the sum, row, tap, and then output.
// Rows are padded to `pitch` taps.
template <int kOutputs>
__device__ __forceinline__ void stage_filter(const Params& p, std::uint32_t first, std::uint32_t pitch, float* filter) {
  const std::uint32_t terms = p.channels * p.taps[0].divisor * p.taps[1].divisor;
  for (std::uint32_t i = threadIdx.x; i < terms * kOutputs; i += kThreads) {
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const std::uint32_t row = p.taps[0].divmod(i / kOutputs, &s);
    const std::uint32_t c = p.taps[1].divmod(row, &r);
    const std::uint32_t m = first + i % kOutputs;
    filter[(row * pitch + s) * kOutputs + i % kOutputs] =
        m < p.outputs ? __ldg(p.filter + (static_cast<std::int32_t>(m) * p.filter_at.image +
                                          static_cast<std::int32_t>(c) * p.filter_at.channel +
                                          static_cast<std::int32_t>(r) * p.filter_at.axis[1] +
                                          static_cast<std::int32_t>(s) * p.filter_at.axis[0]))
                      : 0.0f;
  }
}

// Adds up the sums of the slices, in order: whether this thread has them now.
template <int kSums>
__device__ __forceinline__ bool add_slices(std::uint32_t slice, std::uint32_t slices, float* shared,
                                           float (&sum)[kSums]) {
  if (slices == 1) return true;
  const std::uint32_t width = kThreads / slices;
  __syncthreads();  // the filter has been read
#pragma unroll
  for (int i = 0; i < kSums; ++i) shared[static_cast<std::uint32_t>(i) * kThreads + threadIdx.x] = sum[i];
  __syncthreads();
  if (slice != 0) return false;
  for (std::uint32_t other = 1; other < slices; ++other) {
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      sum[i] += shared[static_cast<std::uint32_t>(i) * kThreads + other * width + threadIdx.x];
  }
  return true;
}

__device__ __forceinline__ void finish(const Params& p, const Place& at, std::int32_t m, float sum) {
  const std::int32_t to = offset_of(p.out_at, at);
  const std::int32_t from = p.addend_scale != 0.0f ? offset_of(p.addend_at, at) : 0;
  float v[1] = {p.alpha * sum};
  if (p.has_scale) v[0] *= *reinterpret_cast<const float*>(static_cast<const char*>(p.scale) + m * p.scale_step);
  if (p.addend_scale != 0.0f) {
    v[0] += p.addend_scale * static_cast<const float*>(p.addend)[from + m * p.addend_at.channel];
  }
  if (p.has_bias) v[0] += *reinterpret_cast<const float*>(static_cast<const char*>(p.bias) + m * p.bias_step);
  if (p.activation.mode == gemm::Activation::relu) gemm::activate_relu(p.activation, v);
  static_cast<float*>(p.out)[to + m * p.out_at.channel] = v[0];
}

template <int kOutputs, int kWidth>
__global__ void __launch_bounds__(kThreads) few_terms_simt(const __grid_constant__ Params p, int slices) {
  extern __shared__ __align__(16) float filter[];
  const auto count = static_cast<std::uint32_t>(slices);
  const std::uint32_t width = kThreads / count;  // pixels of the block
  const std::uint32_t slice = threadIdx.x / width;
  const std::uint32_t pixel = blockIdx.x * width + threadIdx.x % width;
  const std::uint32_t first = blockIdx.y * kOutputs;
  const bool exists = pixel < p.pixels;
  const Place at = place_of(p, exists ? pixel : 0);
  // The image is on its way while the filter is fetched.
  const auto inside = [&](std::uint32_t v, int axis) {
    const auto last = static_cast<std::uint32_t>(p.in_extent[axis] - 1);
    return min(v * static_cast<std::uint32_t>(p.stride[axis]), last);
  };
  ptx::prefetch_l2(p.in + offset_of(p.in_at, {at.image, inside(at.h, 1), inside(at.w, 0)}));

  stage_filter<kOutputs>(p, first, p.taps[0].divisor, filter);
  __syncthreads();
  float sum[kOutputs] = {};
  if constexpr (kWidth == 1) {
    if (exists) sum_channels<kOutputs>(p, at, filter, slice, count, sum);
  } else {
    if (exists) sum_window<kOutputs, kWidth>(p, at, filter, slice, count, sum);
  }
  if (!add_slices(slice, count, filter, sum) || !exists) return;
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    const auto m = static_cast<std::int32_t>(first) + i;
    if (m < static_cast<std::int32_t>(p.outputs)) finish(p, at, m, sum[i]);
  }
}

// 9 x 9 taps, steps of 1. A warp has 32 columns of kRows rows and every kWarps-th channel, of which it keeps what its
// windows see in shared memory, zeros beyond the image; the next channel's elements are on their way meanwhile. The sum
// of a channel is added to the others' as one number.
__global__ void __launch_bounds__(kThreads, 2) few_rows_simt(const __grid_constant__ Params p) {
  constexpr int kSeenRows = kSize + kRows - 1;
  constexpr int kSeenColumns = kSize + 32 - 1;
  constexpr int kOfLane = kSeenRows * kSeenColumns / 32;
  static_assert(kOfLane * 32 == kSeenRows * kSeenColumns, "lanes have as many elements each");
  __shared__ float seen[kWarps][kSeenRows * kSeenColumns];
  extern __shared__ __align__(16) float filter[];
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  Place at = place_of(p, blockIdx.x);
  at.h *= kRows;
  at.w *= 32;
  std::int32_t offset[kOfLane];
  std::uint32_t exists = 0;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const auto element = static_cast<std::int32_t>(lane) + 32 * i;
    const std::int32_t h = static_cast<std::int32_t>(at.h) - p.pad[1] + element / kSeenColumns;
    const std::int32_t w = static_cast<std::int32_t>(at.w) - p.pad[0] + element % kSeenColumns;
    offset[i] = h * p.in_at.axis[1] + w * p.in_at.axis[0];
    if (static_cast<std::uint32_t>(h) < static_cast<std::uint32_t>(p.in_extent[1]) &&
        static_cast<std::uint32_t>(w) < static_cast<std::uint32_t>(p.in_extent[0])) {
      exists |= 1u << i;
    }
  }
  const float* const image = p.in + static_cast<std::int32_t>(at.image) * p.in_at.image;
  float next[kOfLane];
  const auto load = [&](std::uint32_t c) {
    const float* const plane = image + static_cast<std::int32_t>(c) * p.in_at.channel;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      next[i] = (exists >> i & 1u) != 0 && c < p.channels ? __ldg(plane + offset[i]) : 0.0f;
    }
  };
  load(warp);
  stage_filter<1>(p, blockIdx.y, kSizePitch, filter);
  __syncthreads();

  float sum[kRows] = {};
  for (std::uint32_t c = warp; c < p.channels; c += kWarps) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) seen[warp][lane + 32 * static_cast<std::uint32_t>(i)] = next[i];
    __syncwarp();
    load(c + kWarps);
    const auto* const taps = reinterpret_cast<const float4*>(filter + c * (kSize * kSizePitch));
    float tap[kSize][kSizePitch];
    float part[kRows] = {};
#pragma unroll
    for (int row = 0; row < kSeenRows; ++row) {
      float x[kSize];
#pragma unroll
      for (int s = 0; s < kSize; ++s) x[s] = seen[warp][static_cast<std::uint32_t>(row * kSeenColumns + s) + lane];
      if (row < kSize) {
#pragma unroll
        for (int i = 0; i < kSizePitch / 4; ++i) {
          const float4 four = taps[row * (kSizePitch / 4) + i];
          tap[row][4 * i] = four.x, tap[row][4 * i + 1] = four.y, tap[row][4 * i + 2] = four.z;
          tap[row][4 * i + 3] = four.w;
        }
      }
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
        const int r = row - j;
        if (r < 0 || r >= kSize) continue;
#pragma unroll
        for (int s = 0; s < kSize; ++s) part[j] = fmaf(x[s], tap[r][s], part[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) sum[j] += part[j];
  }
  if (!add_slices(warp, kWarps, filter, sum) || at.w + lane >= static_cast<std::uint32_t>(p.out_columns)) return;
#pragma unroll
  for (std::uint32_t j = 0; j < kRows; ++j) {
    if (at.h + j < p.out_rows) {
      finish(p, {at.image, at.h + j, at.w + lane}, static_cast<std::int32_t>(blockIdx.y), sum[j]);
    }
  }
}

}  // namespace gpudnn::kernels::few_terms
