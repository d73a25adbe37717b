// Eight neighbouring elements of a row, of a type told at run time, as floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/params.hpp"
#include "kernels/ptx/cvt_f8.cuh"
#include "kernels/tile/any_type.cuh"

namespace gpudnn::kernels::gemm {

template <class T>
__device__ __forceinline__ void load8_floats(const Matrix& x, std::int64_t at, int count, float (&v)[8]) {
  const T* const from = static_cast<const T*>(x.data) + at;
  if (x.vectors && count == 8) {
    constexpr int kPack = 16 / static_cast<int>(sizeof(T)) < 8 ? 4 : 8;
#pragma unroll
    for (int i = 0; i < 8; i += kPack) {
      const tile::Pack<T, kPack> pack = tile::load_pack<T, kPack>(from + i);
#pragma unroll
      for (int j = 0; j < kPack; ++j) v[i + j] = tile::widen<float>(pack.get(j));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) v[i] = tile::widen<float>(from[i * x.n_stride]);
  }
}

__device__ __forceinline__ float widen_f8(std::uint8_t bits, bool e5m2) {
  const std::uint32_t word = e5m2 ? ptx::cvt_rn_f16x2_e5m2x2(bits) : ptx::cvt_rn_f16x2_e4m3x2(bits);
  return ptx::cvt_f32_f16(static_cast<std::uint16_t>(word));
}

// Element number `at`.
__device__ __forceinline__ float load1(const Matrix& x, std::int64_t at) {
  switch (x.type) {
    case Element::f16:
      return tile::widen<float>(static_cast<const tile::Half*>(x.data)[at]);
    case Element::bf16:
      return tile::widen<float>(static_cast<const tile::BFloat16*>(x.data)[at]);
    case Element::e4m3:
    case Element::e5m2:
      return widen_f8(static_cast<const std::uint8_t*>(x.data)[at], x.type == Element::e5m2);
    default:
      return static_cast<const float*>(x.data)[at];
  }
}

// The first `count` of 8 neighbours, from the element number `at`. The others are left as they are.
__device__ __forceinline__ void load8(const Matrix& x, std::int64_t at, int count, float (&v)[8]) {
  switch (x.type) {
    case Element::f16:
      return load8_floats<tile::Half>(x, at, count, v);
    case Element::bf16:
      return load8_floats<tile::BFloat16>(x, at, count, v);
    case Element::e4m3:
    case Element::e5m2: {
      const auto* const from = static_cast<const std::uint8_t*>(x.data) + at;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i < count) v[i] = widen_f8(from[i * x.n_stride], x.type == Element::e5m2);
      }
      return;
    }
    default:
      return load8_floats<float>(x, at, count, v);
  }
}

template <class T>
__device__ __forceinline__ void store8_floats(const Matrix& x, std::int64_t at, int count, const float (&v)[8]) {
  T* const to = static_cast<T*>(x.data) + at;
  if (x.vectors && count == 8) {
    constexpr int kPack = 16 / static_cast<int>(sizeof(T)) < 8 ? 4 : 8;
#pragma unroll
    for (int i = 0; i < 8; i += kPack) {
      float part[kPack];
#pragma unroll
      for (int j = 0; j < kPack; ++j) part[j] = v[i + j];
      tile::store_pack(to + i, tile::narrow_pack<T>(part));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) to[i * x.n_stride] = tile::narrow<T>(v[i]);
  }
}

__device__ __forceinline__ std::uint16_t narrow_f8_pair(float low, float high, bool e5m2) {
  return e5m2 ? ptx::cvt_rn_satfinite_e5m2x2_f32(high, low) : ptx::cvt_rn_satfinite_e4m3x2_f32(high, low);
}

__device__ __forceinline__ void store8(const Matrix& x, std::int64_t at, int count, const float (&v)[8]) {
  switch (x.type) {
    case Element::f16:
      return store8_floats<tile::Half>(x, at, count, v);
    case Element::bf16:
      return store8_floats<tile::BFloat16>(x, at, count, v);
    case Element::e4m3:
    case Element::e5m2: {
      auto* const to = static_cast<std::uint8_t*>(x.data) + at;
      std::uint32_t words[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        words[i] = narrow_f8_pair(v[4 * i], v[4 * i + 1], x.type == Element::e5m2) |
                   static_cast<std::uint32_t>(narrow_f8_pair(v[4 * i + 2], v[4 * i + 3], x.type == Element::e5m2))
                       << 16;
      }
      if (x.vectors && count == 8) {
        ptx::st_global(reinterpret_cast<uint2*>(to), make_uint2(words[0], words[1]));
        return;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i < count) to[i * x.n_stride] = static_cast<std::uint8_t>(words[i / 4] >> (8 * (i % 4)));
      }
      return;
    }
    default:
      return store8_floats<float>(x, at, count, v);
  }
}

}  // namespace gpudnn::kernels::gemm
