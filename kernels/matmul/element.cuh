// Elements of the types that a matrix product has, told at run time: conversions that run on every GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/matmul/epilogue.hpp"
#include "kernels/tile/any_type.cuh"

namespace gpudnn::kernels::matmul {

// Four elements that one load or store moves.
template <class T>
struct alignas(sizeof(T) * 4 < 16 ? sizeof(T) * 4 : 16) Vector4 {
  T data[4];
};

// An element of 8 bits, whose format the operand tells.
struct Byte {
  std::uint8_t bits;
};

// E5M2 is the upper half of an f16. E4M3 has its exponent's bits one place lower and a bias of 7 in place of 15, so as
// an f16 it is its value times 2^-8, subnormal numbers too; its one NaN has all bits set.
__device__ __forceinline__ float decode_f8(std::uint8_t bits, bool e5m2) {
  if (e5m2) return ptx::cvt_f32_f16(static_cast<std::uint16_t>(bits << 8));
  const auto magnitude = static_cast<std::uint16_t>((bits & 0x7fu) << 7);
  const float value = (bits & 0x7fu) == 0x7fu ? __uint_as_float(0x7fffffffu) : 256.0f * ptx::cvt_f32_f16(magnitude);
  return (bits & 0x80u) != 0 ? -value : value;
}

// float -> 8 bits: to nearest even, held at the greatest number, NaN kept. Normal numbers are rounded in their bits,
// where a carry into the exponent is right; for subnormal ones an addition of 2^23 units of the least number rounds.
template <int kMantissa, int kBias, int kGreatest>
__device__ __forceinline__ std::uint8_t encode_f8(float value) {
  const std::uint32_t all = __float_as_uint(value);
  const std::uint32_t sign = all >> 24 & 0x80u;
  const std::uint32_t magnitude = all & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  constexpr int kDropped = 23 - kMantissa;
  constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(127 + 1 - kBias) << 23;
  std::uint32_t bits;
  if (magnitude < kLeastNormal) {
    // The least number is 2^(1 - bias - mantissa).
    constexpr std::uint32_t kAligner = static_cast<std::uint32_t>(127 + 1 - kBias - kMantissa + 23) << 23;
    bits = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), __uint_as_float(kAligner))) - kAligner;
  } else {
    const std::uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1) + (magnitude >> kDropped & 1u);
    bits = (rounded - (static_cast<std::uint32_t>(127 - kBias) << 23)) >> kDropped;
  }
  return static_cast<std::uint8_t>(sign | (bits < kGreatest ? bits : kGreatest));
}
__device__ __forceinline__ std::uint8_t encode_e4m3(float value) { return encode_f8<3, 7, 0x7e>(value); }
__device__ __forceinline__ std::uint8_t encode_e5m2(float value) { return encode_f8<2, 15, 0x7b>(value); }

// double -> float as one step of a rounding to fewer bits; a float stays.
__device__ __forceinline__ float before_narrowing(float value) { return value; }
__device__ __forceinline__ float before_narrowing(double value) { return tile::round_to_odd(value); }

// Storage -> the type of the sums, C.
template <class C, class T>
__device__ __forceinline__ C widen(T value, Element type) {
  if constexpr (std::is_same_v<T, Byte>) {
    return static_cast<C>(decode_f8(value.bits, type == Element::e5m2));
  } else {
    return tile::widen<C>(value);
  }
}

// E is float or double; f64 goes with double alone.
template <class E>
__device__ __forceinline__ E load_element(Element type, const void* base, std::int64_t at) {
  switch (type) {
    case Element::f64:
      if constexpr (std::is_same_v<E, double>) return static_cast<const double*>(base)[at];
      return E(0);
    case Element::f16:
      return tile::widen<E>(static_cast<const tile::Half*>(base)[at]);
    case Element::bf16:
      return tile::widen<E>(static_cast<const tile::BFloat16*>(base)[at]);
    case Element::e4m3:
    case Element::e5m2:
      return static_cast<E>(decode_f8(static_cast<const std::uint8_t*>(base)[at], type == Element::e5m2));
    case Element::i8:
      return static_cast<E>(static_cast<const std::int8_t*>(base)[at]);
    case Element::i32:
      return static_cast<E>(static_cast<const std::int32_t*>(base)[at]);
    default:
      return static_cast<E>(static_cast<const float*>(base)[at]);
  }
}

template <class T, class Convert, class E>
__device__ __forceinline__ void store_converted(void* base, std::int64_t at, std::int64_t step, int count, bool vector,
                                                const E (&values)[4], Convert convert) {
  T* const to = static_cast<T*>(base) + at;
  Vector4<T> packed;
#pragma unroll
  for (int i = 0; i < 4; ++i) packed.data[i] = convert(values[i]);
  if (vector && count == 4) {
    *reinterpret_cast<Vector4<T>*>(to) = packed;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) to[i * step] = packed.data[i];
  }
}

// The first `count` of four neighbours, `step` elements apart.
template <class E>
__device__ __forceinline__ void store_elements(Element type, void* base, std::int64_t at, std::int64_t step, int count,
                                               bool vector, const E (&values)[4]) {
  switch (type) {
    case Element::f64:
      return store_converted<double>(base, at, step, count, vector, values, [](E v) { return static_cast<double>(v); });
    case Element::f16:
      return store_converted<tile::Half>(base, at, step, count, vector, values,
                                         [](E v) { return tile::narrow<tile::Half>(v); });
    case Element::bf16:
      return store_converted<tile::BFloat16>(base, at, step, count, vector, values,
                                             [](E v) { return tile::narrow<tile::BFloat16>(v); });
    case Element::e4m3:
      return store_converted<std::uint8_t>(base, at, step, count, vector, values,
                                           [](E v) { return encode_e4m3(before_narrowing(v)); });
    case Element::e5m2:
      return store_converted<std::uint8_t>(base, at, step, count, vector, values,
                                           [](E v) { return encode_e5m2(before_narrowing(v)); });
    case Element::i8:
      return store_converted<std::int8_t>(base, at, step, count, vector, values,
                                          [](E v) { return tile::held<std::int8_t>(tile::nearest_integer(v)); });
    case Element::i32:
      return store_converted<std::int32_t>(base, at, step, count, vector, values,
                                           [](E v) { return tile::nearest_integer(v); });
    default:
      return store_converted<float>(base, at, step, count, vector, values, [](E v) { return static_cast<float>(v); });
  }
}

}  // namespace gpudnn::kernels::matmul
