// Convolution of 8-bit integers: the parameters of its kernels, plain data, and the epilogue, for the host and the
// device.
//
//   sum = sum over taps and channels of x * w, in 32-bit integers that wrap around
//   v   = fma(addend_scale, addend, fma(alpha * scale, sum, bias))   in float; without an addend the inner one alone
//   y   = f(v), for 8 bits clamped to the type's range and then rounded to nearest even; a NaN becomes the lowest value
//
// The addend is z, or y where beta is not 0. An output of 32-bit integers that is the sum alone stays exact.
//
// Products count k in words of 4 channels: (tap, word), channels of a group padded to whole words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::integer {

using tile::FastDivmod;

enum class OutType : std::int32_t { i8, u8, i32, f32 };

constexpr int out_bytes(OutType type) { return type == OutType::i32 || type == OutType::f32 ? 4 : 1; }

// Where elements lie, in elements of the tensor: channels come in runs of 2^run_shift neighbours.
struct Tensor {
  std::int64_t image = 0;        // of a filter: from one output channel to the next
  std::int64_t spatial[3] = {};  // w, h, d
  std::int64_t run = 0;          // from a run of channels to the next
  std::int32_t run_shift = 0;

  GPUDNN_HOST_DEVICE std::int64_t channel(std::int64_t c) const {
    return (c >> run_shift) * run + (c & ((std::int64_t{1} << run_shift) - 1));
  }
};
constexpr int kOneRun = 40;  // all channels are neighbours

struct Epilogue {
  OutType out = OutType::i8;
  float alpha = 1;
  float addend_scale = 0;
  bool adds = false;
  bool has_scale = false;
  bool has_bias = false;
  bool has_relu = false;
  bool drops_nan = false;
  bool is_sum = false;  // nothing but the sum
  float lower = 0;
  float upper = 0;
  float slope = 0;
  std::int64_t scale_stride = 0;
  std::int64_t bias_stride = 0;
};

struct Params {
  const std::int8_t* x = nullptr;
  const std::int8_t* w = nullptr;
  void* y = nullptr;
  const void* addend = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  Tensor x_at, w_at, y_at, addend_at;
  std::int64_t w_offset = 0;  // of the first tap of a window
  bool x_is_unsigned = false;
  std::uint32_t pixels = 0;    // of y, of all images
  std::uint32_t filters = 0;   // of a group
  std::uint32_t channels = 0;  // of a group
  std::uint32_t groups = 1;
  FastDivmod extent[3];  // of y: w, h, d
  std::int32_t x_extent[3] = {1, 1, 1};
  std::int32_t pad[3] = {};
  std::int32_t stride[3] = {1, 1, 1};
  std::int32_t dilation[3] = {1, 1, 1};
  FastDivmod taps[2];  // w, h
  std::uint32_t tap_count = 1;
  FastDivmod chunks_of_tap;  // of the kernel's chunk of channels
  std::uint32_t chunks = 0;  // of all taps
  Epilogue epilogue;
};

// The steps of the epilogue, none of them contracted with another by a compiler.
GPUDNN_HOST_DEVICE float multiplied(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
GPUDNN_HOST_DEVICE float added(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

GPUDNN_HOST_DEVICE float relu_of(const Epilogue& e, float v) {
  if (v > e.lower) return v < e.upper ? v : e.upper;
  if (v != v) return e.drops_nan ? e.lower : v;
  return e.slope == 0.0f ? e.lower : added(e.lower, multiplied(e.slope, added(v, -e.lower)));
}

GPUDNN_HOST_DEVICE float finished(const Epilogue& e, std::int32_t sum, float scale, float addend, float bias) {
  const float factor = e.has_scale ? multiplied(e.alpha, scale) : e.alpha;
  float v = fmaf(factor, static_cast<float>(sum), e.has_bias ? bias : 0.0f);
  if (e.adds) v = fmaf(e.addend_scale, addend, v);
  return e.has_relu ? relu_of(e, v) : v;
}

// Clamped to a type of 8 bits. fmax and fmin take the number beside a NaN.
GPUDNN_HOST_DEVICE float clamped(OutType out, float v) {
  const float least = out == OutType::u8 ? 0.0f : -128.0f;
  const float greatest = out == OutType::u8 ? 255.0f : 127.0f;
  return fminf(fmaxf(v, least), greatest);
}

// Of a clamped value, rounded to nearest even: the low byte of the float's bits. 1.5 * 2^23 has a spacing of 1.
GPUDNN_HOST_DEVICE std::uint32_t low_byte_of(float clamped_value) {
  const float shifted = added(clamped_value, 12582912.0f);
#ifdef __CUDA_ARCH__
  return __float_as_uint(shifted);
#else
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(shifted - 12582912.0f));
#endif
}

GPUDNN_HOST_DEVICE std::int32_t rounded_32(float v) {
#ifdef __CUDA_ARCH__
  return __float2int_rn(v);
#else
  if (v != v) return 0;
  if (v >= 2147483648.0f) return INT32_MAX;
  if (v < -2147483648.0f) return INT32_MIN;
  return static_cast<std::int32_t>(std::nearbyintf(v));
#endif
}

// The engine that takes everything (integer_simt.cuh).
void launch_simt(const Params& params, bool whole_words, CUstream_st* stream);

}  // namespace gpudnn::kernels::integer
