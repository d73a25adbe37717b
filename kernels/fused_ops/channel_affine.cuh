// y = f(scale * x + bias + z_scale * z + z_bias) with a factor and an addend for each channel, f ReLU, clipped ReLU or
// the identity, and one bit for each element that says whether f has slope 1 there; or, the other way, y = x where the
// bit is set and 0 elsewhere. Bound by memory: x, z and y are moved once, the bits are an eighth of a byte each.
//
// This kernel takes any strides; channel_affine_packs.cuh is for contiguous channels. A thread takes 8 channels of a
// place, so that it makes one byte of the bits by itself. Where y's channels lie closest together neighbouring threads
// take neighbouring groups, else neighbouring places: each of the thread's 8 loads is then one of a warp's contiguous
// stretch.
//
// A thread reads all that it needs before it writes, and writes what no other thread reads: x or z may be y.
// Computed in float (double for double): one rounding for each product and sum, one to the type of y.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/fused_ops/channel_affine_packs.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

template <class T>
struct ChannelAffineArgs {
  using C = tile::Compute<T>;
  AffineActivation activation;
  bool propagate_nan;
  bool gates;
  bool groups_fastest;
  C ceiling;
  const T* x;
  const T* z;
  T* y;
  ChannelData vectors[4];
  std::uint8_t* bits;
  std::uint32_t bit_row_bytes;
  std::uint32_t channels;
  std::uint32_t threads;  // groups * places
  tile::FastDivmod fastest;
  std::int64_t channel_strides[3];
  tile::LoopNest<3> nest;
};

template <class C>
__device__ __forceinline__ void load_channels(const ChannelData& vector, std::uint32_t first, int valid,
                                              C (&values)[kAffineGroup]) {
  if (vector.data == nullptr) return;
#pragma unroll
  for (int i = 0; i < kAffineGroup; ++i) {
    if (i < valid) values[i] = tile::load_any<C>(vector.type, vector.data, (std::int64_t{first} + i) * vector.stride);
  }
}

template <class T, class C>
__device__ __forceinline__ C activate_affine(const ChannelAffineArgs<T>& args, C value, bool* passes) {
  *passes = true;
  if (args.activation == AffineActivation::none) return value;
  if (value != value) {
    *passes = args.propagate_nan;
    return args.propagate_nan ? value : C(0);
  }
  const bool clipped = args.activation == AffineActivation::clipped_relu;
  *passes = value > C(0) && (!clipped || value < args.ceiling);
  const C positive = value > C(0) ? value : C(0);
  return clipped && positive > args.ceiling ? args.ceiling : positive;
}

template <class T>
__global__ void __launch_bounds__(kAffineThreads, 2) channel_affine(const __grid_constant__ ChannelAffineArgs<T> args) {
  using C = tile::Compute<T>;
  const std::uint32_t index = blockIdx.x * kAffineThreads + threadIdx.x;
  if (index >= args.threads) return;
  std::uint32_t inner = 0;
  const std::uint32_t outer = args.fastest.divmod(index, &inner);
  const std::uint32_t group = args.groups_fastest ? inner : outer;
  const std::uint32_t place = args.groups_fastest ? outer : inner;
  const std::uint32_t first = group * kAffineGroup;
  // Negative for the bytes that only fill up the last word of a row of bits.
  const int left = static_cast<int>(args.channels) - static_cast<int>(first);
  const int valid = left < kAffineGroup ? left : kAffineGroup;
  std::uint8_t* const bits = args.bits + (std::int64_t{place} * args.bit_row_bytes + group);
  unsigned made = 0;
  if (valid > 0) {
    std::int64_t offset[3];
    args.nest.offsets(place, offset);
    C x[kAffineGroup];
    C z[kAffineGroup];
#pragma unroll
    for (int i = 0; i < kAffineGroup; ++i) {
      if (i < valid) x[i] = tile::widen<C>(args.x[offset[0] + (first + i) * args.channel_strides[0]]);
    }
    if (args.z != nullptr) {
#pragma unroll
      for (int i = 0; i < kAffineGroup; ++i) {
        if (i < valid) z[i] = tile::widen<C>(args.z[offset[1] + (first + i) * args.channel_strides[1]]);
      }
    }
    if (args.gates) made = *bits;
    C scale[kAffineGroup];
    C bias[kAffineGroup];
    C z_scale[kAffineGroup];
    C z_bias[kAffineGroup];
#pragma unroll
    for (int i = 0; i < kAffineGroup; ++i) {
      scale[i] = z_scale[i] = C(1);
      bias[i] = z_bias[i] = C(0);
    }
    load_channels(args.vectors[0], first, valid, scale);
    load_channels(args.vectors[1], first, valid, bias);
    load_channels(args.vectors[2], first, valid, z_scale);
    load_channels(args.vectors[3], first, valid, z_bias);
#pragma unroll
    for (int i = 0; i < kAffineGroup; ++i) {
      if (i >= valid) break;
      C value = x[i];
      if (args.gates) {
        value = (made >> i & 1u) != 0 ? value : C(0);
      } else {
        value = scale[i] * value + (bias[i] + z_bias[i]);
        if (args.z != nullptr) value += z_scale[i] * z[i];
        bool passes = false;
        value = activate_affine(args, value, &passes);
        if (passes) made |= 1u << i;
      }
      args.y[offset[2] + (first + i) * args.channel_strides[2]] = tile::narrow<T>(value);
    }
  }
  if (args.bits != nullptr && !args.gates) *bits = static_cast<std::uint8_t>(made);
}

}  // namespace gpudnn::kernels
