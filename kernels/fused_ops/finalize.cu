// The last step of batch statistics: a thread for each channel, in double (a few thousand of them at most, and the
// variance is a difference of two sums: the digits that float would lose there are the variance's).
//
//   training   mean = sum / m,   var = max(0, squares / m - mean^2),   inverse = 1 / sqrt(var + epsilon)
//              running = (1 - factor) * running + factor * (mean, var * m / (m - 1))
//   inference  mean and var are the running ones
//   both       eqscale = scale * inverse,   eqbias = bias - mean * eqscale
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/fused_ops/fused_ops.hpp"
#include "kernels/tile/any_type.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 128;

enum Vector { sum, squares, scale, bias, saved_mean, saved_inverse, running_mean, running_variance, eqscale, eqbias };

__device__ __forceinline__ double load(const ChannelData& vector, std::int64_t channel, double otherwise) {
  if (vector.data == nullptr) return otherwise;
  return tile::load_any<double>(vector.type, vector.data, channel * vector.stride);
}
__device__ __forceinline__ void store(const ChannelData& vector, std::int64_t channel, double value) {
  if (vector.data != nullptr) tile::store_any<double>(vector.type, vector.data, channel * vector.stride, value);
}
// With a factor of 1 the old value, which may be anything, plays no part.
__device__ __forceinline__ void move(const ChannelData& vector, std::int64_t channel, double factor, double value) {
  const double old = 1 - factor;
  double moved = factor * value;
  if (old != 0) moved += old * load(vector, channel, 0);
  store(vector, channel, moved);
}

__global__ void __launch_bounds__(kThreads) finalize_statistics(const __grid_constant__ FinalizeParams params) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= params.channels) return;
  const auto& vectors = params.vectors;
  double mean = 0;
  double variance = 0;
  if (params.training) {
    const double m = params.count;
    mean = load(vectors[sum], channel, 0) / m;
    const double difference = load(vectors[squares], channel, 0) / m - mean * mean;
    variance = difference < 0 ? 0 : difference;  // a NaN stays one
    move(vectors[running_mean], channel, params.factor, mean);
    move(vectors[running_variance], channel, params.factor, m > 1 ? variance * (m / (m - 1)) : variance);
  } else {
    mean = load(vectors[running_mean], channel, 0);
    variance = load(vectors[running_variance], channel, 0);
  }
  const double inverse = 1 / sqrt(variance + params.epsilon);
  if (params.training) {
    store(vectors[saved_mean], channel, mean);
    store(vectors[saved_inverse], channel, inverse);
  }
  const double slope = load(vectors[scale], channel, 1) * inverse;
  store(vectors[eqscale], channel, slope);
  store(vectors[eqbias], channel, load(vectors[bias], channel, 0) - mean * slope);
}

}  // namespace

void launch_finalize_statistics(const FinalizeParams& params, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>((params.channels + kThreads - 1) / kThreads);
  finalize_statistics<<<blocks, kThreads, 0, stream>>>(params);
}

}  // namespace gpudnn::kernels
