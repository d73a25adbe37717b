// The last step of batch statistics: a thread for each channel, in double (a few thousand of them at most, and the
// variance is a difference of two sums: the digits that float would lose there are the variance's).
//
//   training   mean = sum / m,   var = max(0, squares / m - mean^2),   inverse = 1 / sqrt(var + epsilon)
//              running = (1 - factor) * running + factor * (mean, var * m / (m - 1))
//   inference  mean and var are the running ones
//   both       eqscale = scale * inverse,   eqbias = bias - mean * eqscale
//
// The work is nothing, so the time is that of fetching a kernel's code and ten lines of memory, each once. Where all
// vectors are contiguous floats (the equivalent scale and bias of any type) a kernel without branches does it: all
// loads first; 1 / m comes with the launch and the inverse from one function, within 2 units of the last place of a
// double, in place of two divisions and a root with their out-of-line code. The general kernel takes any types and
// strides.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "kernels/fused_ops/fused_ops.hpp"
#include "kernels/tile/any_type.cuh"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/loop_nest.hpp"

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
        return tile::widen<double>(tile::Half{static_cast<std::uint16_t>(bits)});
      default:
        return tile::widen<double>(tile::BFloat16{static_cast<std::uint16_t>(bits)});
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

struct FinalizeFloatsArgs {
  std::uint32_t channels;
  tile::AnyType eq_type;
  const float* in[4];  // sum, squares (inference: running mean, running variance), scale, bias
  float* saved[2];     // mean, inverse
  float* running[2];   // mean, variance; training alone
  void* eq[2];         // scale, bias
  double count;
  double inverse_count;
  double stretch;  // from the variance to the unbiased one
  double factor;
  double kept;  // 1 - factor
  double epsilon;
};

__device__ __forceinline__ void store_eq(void* base, tile::AnyType type, std::uint32_t channel, double value) {
  if (base == nullptr) return;
  if (type == tile::AnyType::f32) {
    static_cast<float*>(base)[channel] = static_cast<float>(value);
  } else if (type == tile::AnyType::f16) {
    static_cast<tile::Half*>(base)[channel] = tile::narrow<tile::Half>(value);
  } else {
    static_cast<tile::BFloat16*>(base)[channel] = tile::narrow<tile::BFloat16>(value);
  }
}

template <bool kTraining>
__global__ void __launch_bounds__(kThreads) finalize_floats(const __grid_constant__ FinalizeFloatsArgs args) {
  const std::uint32_t channel = blockIdx.x * kThreads + threadIdx.x;
  if (channel >= args.channels) return;
  float in[4] = {0.0f, 0.0f, 1.0f, 0.0f};
  float old[2] = {0.0f, 0.0f};
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    if (args.in[v] != nullptr) in[v] = args.in[v][channel];
  }
  if constexpr (kTraining) {
    // With a factor of 1 the old running values, which may be anything, play no part.
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      if (args.kept != 0 && args.running[v] != nullptr) old[v] = args.running[v][channel];
    }
  }
  double mean = in[0];
  double variance = in[1];
  if constexpr (kTraining) {
    const double quotient = mean * args.inverse_count;
    const double rest = fma(-quotient, args.count, mean);  // a NaN where the sum is infinite
    mean = rest == rest ? fma(rest, args.inverse_count, quotient) : quotient;
    const double difference = variance * args.inverse_count - mean * mean;
    variance = difference < 0 ? 0 : difference;  // a NaN stays one
  }
  const double inverse = rsqrt(variance + args.epsilon);
  const double slope = in[2] * inverse;
  store_eq(args.eq[0], args.eq_type, channel, slope);
  store_eq(args.eq[1], args.eq_type, channel, in[3] - mean * slope);
  if constexpr (kTraining) {
    if (args.saved[0] != nullptr) args.saved[0][channel] = static_cast<float>(mean);
    if (args.saved[1] != nullptr) args.saved[1][channel] = static_cast<float>(inverse);
    if (args.running[0] != nullptr) {
      args.running[0][channel] = static_cast<float>(args.factor * mean + args.kept * old[0]);
    }
    if (args.running[1] != nullptr) {
      args.running[1][channel] = static_cast<float>(args.factor * (variance * args.stretch) + args.kept * old[1]);
    }
  }
}

// False where the general kernel must do it.
bool finalized_floats(const FinalizeParams& params, cudaStream_t stream) {
  if (params.channels > tile::kMaxIterations) return false;
  const auto& vectors = params.vectors;
  for (int v = 0; v < kFinalizeVectors; ++v) {
    const bool is_eq = v == eqscale || v == eqbias;
    if (vectors[v].data == nullptr) continue;
    if (params.channels > 1 && vectors[v].stride != 1) return false;
    if (vectors[v].type != tile::AnyType::f32 && (!is_eq || vectors[v].type == tile::AnyType::f64)) return false;
  }
  FinalizeFloatsArgs args{};
  args.channels = static_cast<std::uint32_t>(params.channels);
  args.eq_type = vectors[vectors[eqscale].data != nullptr ? eqscale : eqbias].type;
  if (vectors[eqscale].data != nullptr && vectors[eqbias].data != nullptr &&
      vectors[eqscale].type != vectors[eqbias].type) {
    return false;
  }
  const auto floats = [&](int v) { return static_cast<float*>(vectors[v].data); };
  args.in[0] = floats(params.training ? sum : running_mean);
  args.in[1] = floats(params.training ? squares : running_variance);
  args.in[2] = floats(scale);
  args.in[3] = floats(bias);
  args.saved[0] = floats(saved_mean);
  args.saved[1] = floats(saved_inverse);
  args.running[0] = floats(running_mean);
  args.running[1] = floats(running_variance);
  args.eq[0] = vectors[eqscale].data;
  args.eq[1] = vectors[eqbias].data;
  args.count = params.count;
  args.inverse_count = 1 / params.count;
  args.stretch = params.count > 1 ? params.count / (params.count - 1) : 1;
  args.factor = params.factor;
  args.kept = 1 - params.factor;
  args.epsilon = params.epsilon;
  const unsigned blocks = (args.channels + kThreads - 1) / kThreads;
  if (params.training) {
    tile::launch_kernel(&finalize_floats<true>, {blocks, kThreads}, stream, args);
  } else {
    tile::launch_kernel(&finalize_floats<false>, {blocks, kThreads}, stream, args);
  }
  return true;
}

}  // namespace

void launch_finalize_statistics(const FinalizeParams& params, CUstream_st* stream) {
  if (finalized_floats(params, stream)) return;
  const auto blocks = static_cast<unsigned>((params.channels + kThreads - 1) / kThreads);
  tile::launch_kernel(&finalize_statistics, {blocks, kThreads}, stream, params);
}

}  // namespace gpudnn::kernels
