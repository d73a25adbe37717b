// Float convolution of few terms an output, as those of LeNet: a thread sums an output pixel of one or four channels.
//
// Data flow of a block: the filters of its channels -> shared memory, in the order in which they are met; a thread then
// loads the elements under its window one by one, of which neighbours in a row are another thread's (the L1 has them),
// and multiplies each with the one or four factors that all threads of a warp read alike. Where pixels are few, up to
// eight threads share the channels of a sum; theirs are added in order in shared memory.
//
// Limits: filters 5 wide, those of a thread's channels within 48 KiB; 31-bit offsets; one group; one or two spatial
// dimensions.
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

template <int kOutputs>
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

template <int kOutputs>
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

  const std::uint32_t terms = p.channels * p.taps[0].divisor * p.taps[1].divisor;
  for (std::uint32_t i = threadIdx.x; i < terms * kOutputs; i += kThreads) {
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const std::uint32_t c = p.taps[1].divmod(p.taps[0].divmod(i / kOutputs, &s), &r);
    const std::uint32_t m = first + i % kOutputs;
    filter[i] = m < p.outputs ? __ldg(p.filter + (static_cast<std::int32_t>(m) * p.filter_at.image +
                                                  static_cast<std::int32_t>(c) * p.filter_at.channel +
                                                  static_cast<std::int32_t>(r) * p.filter_at.axis[1] +
                                                  static_cast<std::int32_t>(s) * p.filter_at.axis[0]))
                              : 0.0f;
  }
  __syncthreads();
  float sum[kOutputs] = {};
  if (exists) sum_window<kOutputs>(p, at, filter, slice, count, sum);
  if (count > 1) {
    __syncthreads();  // the filter has been read
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) filter[static_cast<std::uint32_t>(i) * kThreads + threadIdx.x] = sum[i];
    __syncthreads();
    if (slice != 0) return;
    for (std::uint32_t other = 1; other < count; ++other) {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        sum[i] += filter[static_cast<std::uint32_t>(i) * kThreads + other * width + threadIdx.x];
      }
    }
  }
  if (!exists) return;
  const std::int32_t to = offset_of(p.out_at, at);
  const std::int32_t from = p.addend_scale != 0.0f ? offset_of(p.addend_at, at) : 0;
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    const auto m = static_cast<std::int32_t>(first) + i;
    if (m >= static_cast<std::int32_t>(p.outputs)) break;
    float v[1] = {p.alpha * sum[i]};
    if (p.has_scale) v[0] *= *reinterpret_cast<const float*>(static_cast<const char*>(p.scale) + m * p.scale_step);
    if (p.addend_scale != 0.0f) {
      v[0] += p.addend_scale * static_cast<const float*>(p.addend)[from + m * p.addend_at.channel];
    }
    if (p.has_bias) v[0] += *reinterpret_cast<const float*>(static_cast<const char*>(p.bias) + m * p.bias_step);
    if (p.activation.mode == gemm::Activation::relu) gemm::activate_relu(p.activation, v);
    static_cast<float*>(p.out)[to + m * p.out_at.channel] = v[0];
  }
}

}  // namespace gpudnn::kernels::few_terms
