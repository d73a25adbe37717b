// The channel-wise affine stage (channel_affine.cuh) where channels are contiguous in every tensor and come in whole
// groups of 8: what batch-normalized networks in NHWC run.
//
//   y = f(scale * x + bias + z_scale * z + z_bias), a bit for each element whether f has slope 1 there; or
//   y = x where the bit is set, else 0
//
// Bound by memory: x, z and y are moved once, 16 bytes a lane. A thread keeps one group of channels, so that it fetches
// the channel vectors once, and walks down the places: a block covers `columns` groups by `rows` places, which lie next
// to each other in memory, and goes through kAffineLoads such rows at a time with all of their loads in flight. Blocks
// stay for the whole tensor: what they set up is spread over all of their rounds.
//
// The two addends of a channel are added up beforehand. For each of the branches all threads decide alike, once for 8
// elements. 8 instructions an element with everything asked for: conversions, two products, the activation, its bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/fused_ops/fused_ops.hpp"
#include "kernels/tile/any_type.cuh"

namespace gpudnn::kernels {

constexpr int kAffineThreads = 256;
constexpr int kAffineGroup = 8;  // channels of a thread: one byte of bits

template <class T>
struct AffinePacksArgs {
  AffineActivation activation;
  bool propagate_nan;
  bool gates;
  float ceiling;
  const T* x;
  const T* z;
  T* y;
  ChannelData vectors[4];
  std::uint8_t* bits;
  std::uint32_t bit_row_bytes;
  std::uint32_t groups;  // with those that only fill up a row of bits
  std::uint32_t channels;
  std::uint32_t places;
  std::uint32_t rows;  // of a block
  tile::FastDivmod columns;
  tile::LoopNest<3> nest;
};

// A group's 8 values of one channel vector, as they are stored: all vectors are fetched before the first is looked at.
struct ChannelGroup {
  uint4 words[2];
  tile::AnyType type;

  __device__ __forceinline__ void fetch(const ChannelData& vector, std::uint32_t first) {
    type = vector.type;
    if (vector.data == nullptr) return;
    if (vector.in_packs) {
      const auto* const from =
          static_cast<const std::byte*>(vector.data) + first * (type == tile::AnyType::f32 ? 4 : 2);
      words[0] = *reinterpret_cast<const uint4*>(from);
      if (type == tile::AnyType::f32) words[1] = reinterpret_cast<const uint4*>(from)[1];
      return;
    }
    float values[kAffineGroup];
#pragma unroll
    for (int i = 0; i < kAffineGroup; ++i) {
      values[i] = tile::load_any<float>(vector.type, vector.data, (std::int64_t{first} + i) * vector.stride);
    }
    memcpy(words, values, sizeof values);
    type = tile::AnyType::f32;
  }
  __device__ __forceinline__ void widen(const ChannelData& vector, float otherwise,
                                        float (&values)[kAffineGroup]) const {
    if (vector.data == nullptr) {
#pragma unroll
      for (float& value : values) value = otherwise;
    } else if (type == tile::AnyType::f32) {
      memcpy(values, words, sizeof values);
    } else if (type == tile::AnyType::f16) {
      tile::Pack<tile::Half, kAffineGroup> pack;
      memcpy(&pack, words, sizeof pack);
      tile::widen_pack<float>(pack, values);
    } else {
      tile::Pack<tile::BFloat16, kAffineGroup> pack;
      memcpy(&pack, words, sizeof pack);
      tile::widen_pack<float>(pack, values);
    }
  }
};

// 8 elements.
template <class T>
struct ElementGroup {
  static constexpr int N = tile::kPackWidth<T>;
  tile::Pack<T, N> packs[kAffineGroup / N];

  __device__ __forceinline__ void load(const T* from) {
#pragma unroll
    for (int p = 0; p < kAffineGroup / N; ++p) packs[p] = tile::load_pack<T, N>(from + p * N);
  }
  __device__ __forceinline__ float get(int i) const { return tile::widen<float>(packs[i / N].get(i % N)); }
  __device__ __forceinline__ static void store(T* to, const float (&values)[kAffineGroup]) {
#pragma unroll
    for (int p = 0; p < kAffineGroup / N; ++p) {
      float part[N];
#pragma unroll
      for (int i = 0; i < N; ++i) part[i] = values[p * N + i];
      tile::store_pack<T, N>(to + p * N, tile::narrow_pack<T>(part));
    }
  }
};

// The activation of 8 values; returns their bits.
template <class T>
__device__ __forceinline__ unsigned activate_group(const AffinePacksArgs<T>& args, float (&values)[kAffineGroup]) {
  if (args.activation == AffineActivation::none) return 0xffu;
  unsigned made = 0;
  if (args.activation == AffineActivation::relu && !args.propagate_nan) {
#pragma unroll
    for (int i = 0; i < kAffineGroup; ++i) {
      values[i] = fmaxf(values[i], 0.0f);  // 0 for a NaN
      if (values[i] > 0.0f) made |= 1u << i;
    }
    return made;
  }
  const float ceiling = args.activation == AffineActivation::relu ? INFINITY : args.ceiling;
  const bool is_open = args.activation == AffineActivation::relu;  // infinity passes
#pragma unroll
  for (int i = 0; i < kAffineGroup; ++i) {
    const float value = values[i];
    const bool nan = value != value;
    if (nan ? args.propagate_nan : value > 0.0f && (is_open || value < ceiling)) made |= 1u << i;
    const float held = fminf(fmaxf(value, 0.0f), ceiling);
    values[i] = nan && args.propagate_nan ? value : nan ? 0.0f : held;
  }
  return made;
}

template <class T>
inline constexpr int kAffineLoads = 8 / static_cast<int>(sizeof(T));

template <class T>
__global__ void __launch_bounds__(kAffineThreads, 2)
    channel_affine_packs(const __grid_constant__ AffinePacksArgs<T> args) {
  constexpr int kLoads = kAffineLoads<T>;
  std::uint32_t column;
  const std::uint32_t row = args.columns.divmod(threadIdx.x, &column);
  const std::uint32_t group = blockIdx.y * args.columns.divisor + column;
  if (row >= args.rows || group >= args.groups) return;
  const std::uint32_t first = group * kAffineGroup;
  const bool has_channels = first < args.channels;  // else the byte only fills up the last word of a row of bits
  float scale[kAffineGroup];
  float bias[kAffineGroup];
  float z_scale[kAffineGroup];
  if (has_channels && !args.gates) {
    ChannelGroup fetched[4];
#pragma unroll
    for (int v = 0; v < 4; ++v) fetched[v].fetch(args.vectors[v], first);
    float z_bias[kAffineGroup];
    fetched[0].widen(args.vectors[0], 1.0f, scale);
    fetched[1].widen(args.vectors[1], 0.0f, bias);
    fetched[2].widen(args.vectors[2], 1.0f, z_scale);
    fetched[3].widen(args.vectors[3], 0.0f, z_bias);
#pragma unroll
    for (int i = 0; i < kAffineGroup; ++i) bias[i] += z_bias[i];
  }
  const bool writes_bits = args.bits != nullptr && !args.gates;
  const std::uint32_t step = gridDim.x * args.rows * kLoads;
#pragma unroll 1
  for (std::uint32_t place = blockIdx.x * args.rows * kLoads + row; place < args.places; place += step) {
    ElementGroup<T> x[kLoads];
    ElementGroup<T> z[kLoads];
    unsigned bits[kLoads];
    if (has_channels) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        const std::uint32_t at = place + u * args.rows;
        if (at < args.places) x[u].load(args.x + args.nest.offset_in(0, at) + first);
      }
      if (args.z != nullptr) {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
          const std::uint32_t at = place + u * args.rows;
          if (at < args.places) z[u].load(args.z + args.nest.offset_in(1, at) + first);
        }
      }
      if (args.gates) {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
          const std::uint32_t at = place + u * args.rows;
          if (at < args.places) bits[u] = args.bits[std::int64_t{at} * args.bit_row_bytes + group];
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const std::uint32_t at = place + u * args.rows;
      if (at >= args.places) break;
      unsigned made = 0;
      if (has_channels) {
        float values[kAffineGroup];
#pragma unroll
        for (int i = 0; i < kAffineGroup; ++i) values[i] = x[u].get(i);
        if (args.gates) {
#pragma unroll
          for (int i = 0; i < kAffineGroup; ++i) values[i] = (bits[u] >> i & 1u) != 0 ? values[i] : 0.0f;
        } else {
#pragma unroll
          for (int i = 0; i < kAffineGroup; ++i) values[i] = scale[i] * values[i] + bias[i];
          if (args.z != nullptr) {
#pragma unroll
            for (int i = 0; i < kAffineGroup; ++i) values[i] += z_scale[i] * z[u].get(i);
          }
          made = activate_group(args, values);
        }
        ElementGroup<T>::store(args.y + args.nest.offset_in(2, at) + first, values);
      }
      if (writes_bits) args.bits[std::int64_t{at} * args.bit_row_bytes + group] = static_cast<std::uint8_t>(made);
    }
  }
}

}  // namespace gpudnn::kernels
