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

// The bits of one value. All of a thread's are fetched before the first is looked at: each waits for memory as long as
// the whole rest takes, and a type that is looked up at run time would put those waits one behind the other.
struct Fetched {
  unsigned long long bits = 0;

  __device__ __forceinline__ void fetch(const ChannelData& vector, std::int64_t channel) {
    if (vector.data == nullptr) return;
    const std::int64_t at = channel * vector.stride;
    switch (vector.type) {
      case tile::AnyType::f64:
        bits = static_cast<const unsigned long long*>(vector.data)[at];
        break;
      case tile::AnyType::f32:
        bits = static_cast<const unsigned*>(vector.data)[at];
        break;
      default:
        bits = static_cast<const unsigned short*>(vector.data)[at];
    }
  }
  __device__ __forceinline__ double value(const ChannelData& vector, double otherwise) const {
    if (vector.data == nullptr) return otherwise;
    switch (vector.type) {
      case tile::AnyType::f64:
        return __longlong_as_double(static_cast<long long>(bits));
      case tile::AnyType::f32:
        return __uint_as_float(static_cast<unsigned>(bits));
      case tile::AnyType::f16:
        return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
      default:
        return __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(bits)));
    }
  }
};

__device__ __forceinline__ void store(const ChannelData& vector, std::int64_t channel, double value) {
  if (vector.data != nullptr) tile::store_any<double>(vector.type, vector.data, channel * vector.stride, value);
}

__global__ void __launch_bounds__(kThreads) finalize_statistics(const __grid_constant__ FinalizeParams params) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= params.channels) return;
  const auto& vectors = params.vectors;
  // With a factor of 1 the old running values, which may be anything, play no part.
  const double old = 1 - params.factor;
  Fetched fetched[running_variance + 1];
#pragma unroll
  for (int v = 0; v <= running_variance; ++v) {
    if (v == saved_mean || v == saved_inverse) continue;
    const bool is_running = v == running_mean || v == running_variance;
    const bool is_sum = v == sum || v == squares;
    if (params.training ? !is_running || old != 0 : !is_sum) fetched[v].fetch(vectors[v], channel);
  }
  double mean = fetched[running_mean].value(vectors[running_mean], 0);
  double variance = fetched[running_variance].value(vectors[running_variance], 0);
  if (params.training) {
    const double m = params.count;
    const double old_mean = old != 0 ? old * mean : 0;
    const double old_variance = old != 0 ? old * variance : 0;
    mean = fetched[sum].value(vectors[sum], 0) / m;
    const double difference = fetched[squares].value(vectors[squares], 0) / m - mean * mean;
    variance = difference < 0 ? 0 : difference;  // a NaN stays one
    store(vectors[running_mean], channel, params.factor * mean + old_mean);
    const double unbiased = m > 1 ? variance * (m / (m - 1)) : variance;
    store(vectors[running_variance], channel, params.factor * unbiased + old_variance);
  }
  const double inverse = 1 / sqrt(variance + params.epsilon);
  if (params.training) {
    store(vectors[saved_mean], channel, mean);
    store(vectors[saved_inverse], channel, inverse);
  }
  const double slope = fetched[scale].value(vectors[scale], 1) * inverse;
  store(vectors[eqscale], channel, slope);
  store(vectors[eqbias], channel, fetched[bias].value(vectors[bias], 0) - mean * slope);
}

}  // namespace

void launch_finalize_statistics(const FinalizeParams& params, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>((params.channels + kThreads - 1) / kThreads);
  finalize_statistics<<<blocks, kThreads, 0, stream>>>(params);
}

}  // namespace gpudnn::kernels
