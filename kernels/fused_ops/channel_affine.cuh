// y = f(scale * x + bias + z_scale * z + z_bias) with a factor and an addend for each channel, f ReLU, clipped ReLU or
// the identity, and one bit for each element that says whether f has slope 1 there; or, the other way, y = x where the
// bit is set and 0 elsewhere. Bound by memory: x, z and y are moved once, the bits are an eighth of a byte each.
//
// A thread takes 8 channels of a place, so that it makes one byte of the bits by itself and reads the 8 values of each
// channel vector into registers:
//   vectors   channels are contiguous in every tensor and come in whole groups: 16 bytes at a time. A thread goes
//             through several places of the same channels with all of its loads in flight (64 bytes of each tensor);
//             neighbouring threads take neighbouring groups, so that a warp covers a contiguous stretch.
//   elements  any strides. Where y's channels lie closest together neighbouring threads take neighbouring groups, else
//             neighbouring places: each of the thread's 8 loads is then one of a warp's contiguous stretch.
//
// A thread reads all that it needs before it writes, and writes what no other thread reads: x or z may be y.
// Computed in float (double for double): one rounding for each product and sum, one to the type of y.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/fused_ops/fused_ops.hpp"
#include "kernels/tile/any_type.cuh"
#include "kernels/tile/dispatch.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

constexpr int kAffineThreads = 256;
constexpr int kAffineGroup = 8;  // channels of a thread: one byte of bits

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
  std::uint32_t places;
  std::uint32_t chunks;   // threads for each group; a thread's places are that far apart
  std::uint32_t threads;  // groups * chunks
  tile::FastDivmod fastest;
  std::int64_t channel_strides[3];
  tile::LoopNest<3> nest;
};

// The 8 elements of a thread in one tensor.
template <class T, bool kVectors>
struct AffineGroup {
  T data[kAffineGroup];
  __device__ __forceinline__ void load(const T* from, std::int64_t stride, int valid) {
#pragma unroll
    for (int i = 0; i < kAffineGroup; ++i) {
      if (i < valid) data[i] = from[i * stride];
    }
  }
  __device__ __forceinline__ T get(int i) const { return data[i]; }
};
template <class T>
struct AffineGroup<T, true> {
  static constexpr int N = tile::kPackWidth<T>;
  tile::Pack<T, N> data[kAffineGroup / N];
  __device__ __forceinline__ void load(const T* from, std::int64_t, int) {
#pragma unroll
    for (int p = 0; p < kAffineGroup / N; ++p) data[p] = tile::load_pack<T, N>(from + p * N);
  }
  __device__ __forceinline__ T get(int i) const { return data[i / N].get(i % N); }
};

template <class T, bool kVectors, class C>
__device__ __forceinline__ void store_group(T* to, std::int64_t stride, int valid, const C (&values)[kAffineGroup]) {
  if constexpr (kVectors) {
    constexpr int N = tile::kPackWidth<T>;
#pragma unroll
    for (int p = 0; p < kAffineGroup / N; ++p) {
      C part[N];
#pragma unroll
      for (int i = 0; i < N; ++i) part[i] = values[p * N + i];
      tile::store_pack<T, N>(to + p * N, tile::narrow_pack<T>(part));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kAffineGroup; ++i) {
      if (i < valid) to[i * stride] = tile::narrow<T>(values[i]);
    }
  }
}

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

template <class T, bool kVectors>
__global__ void __launch_bounds__(kAffineThreads, 2) channel_affine(const __grid_constant__ ChannelAffineArgs<T> args) {
  using C = tile::Compute<T>;
  constexpr int kPlaces = kVectors ? 8 / static_cast<int>(sizeof(T)) : 1;
  const std::uint32_t index = blockIdx.x * kAffineThreads + threadIdx.x;
  if (index >= args.threads) return;
  std::uint32_t inner = 0;
  const std::uint32_t outer = args.fastest.divmod(index, &inner);
  const std::uint32_t group = args.groups_fastest ? inner : outer;
  const std::uint32_t chunk = args.groups_fastest ? outer : inner;
  const std::uint32_t first = group * kAffineGroup;
  // Negative for the bytes that only fill up the last word of a row of bits.
  const int left = static_cast<int>(args.channels) - static_cast<int>(first);
  const int valid = left < kAffineGroup ? left : kAffineGroup;

  std::uint32_t place[kPlaces];
  std::uint32_t walked[kPlaces];
  std::int64_t offset[kPlaces][3];
#pragma unroll
  for (int u = 0; u < kPlaces; ++u) walked[u] = place[u] = chunk + u * args.chunks;
  args.nest.template offsets_of<kPlaces>(walked, offset);
  AffineGroup<T, kVectors> x[kPlaces];
  AffineGroup<T, kVectors> z[kPlaces];
  unsigned bits[kPlaces] = {};
#pragma unroll
  for (int u = 0; u < kPlaces; ++u) {
    if (place[u] >= args.places || valid <= 0) continue;
    x[u].load(args.x + offset[u][0] + first * args.channel_strides[0], args.channel_strides[0], valid);
    if (args.z != nullptr) {
      z[u].load(args.z + offset[u][1] + first * args.channel_strides[1], args.channel_strides[1], valid);
    }
    if (args.gates) bits[u] = args.bits[std::int64_t{place[u]} * args.bit_row_bytes + group];
  }
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
  for (int u = 0; u < kPlaces; ++u) {
    if (place[u] >= args.places) continue;
    C values[kAffineGroup];
    unsigned made = 0;
    if (valid > 0) {
#pragma unroll
      for (int i = 0; i < kAffineGroup; ++i) {
        const C input = tile::widen<C>(x[u].get(i));
        if (args.gates) {
          values[i] = (bits[u] >> i & 1u) != 0 ? input : C(0);
        } else {
          C value = scale[i] * input + bias[i];
          if (args.z != nullptr) value += z_scale[i] * tile::widen<C>(z[u].get(i)) + z_bias[i];
          bool passes = false;
          values[i] = activate_affine(args, value, &passes);
          if (passes && i < valid) made |= 1u << i;
        }
      }
      store_group<T, kVectors>(args.y + offset[u][2] + first * args.channel_strides[2], args.channel_strides[2], valid,
                               values);
    }
    if (args.bits != nullptr && !args.gates) {
      args.bits[std::int64_t{place[u]} * args.bit_row_bytes + group] = static_cast<std::uint8_t>(made);
    }
  }
}

}  // namespace gpudnn::kernels
