// One element whose type is told at run time: a branch that all threads take alike, in place of an instance for each
// pair of types. For outputs of reductions, and for conversions that are too rare for kernels of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/any_type.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::tile {

// C -> integer: rounded to nearest even, held at the ends of the range; a NaN becomes 0. The conversion instructions do
// all of that for 32 bits, but for a NaN of 64, which they turn into the lowest integer.
__device__ __forceinline__ std::int32_t nearest_integer(float value) { return __float2int_rn(value); }
__device__ __forceinline__ std::int32_t nearest_integer(double value) {
  return value != value ? 0 : __double2int_rn(value);
}

template <class T>
__device__ __forceinline__ T held(std::int32_t value) {
  constexpr std::int32_t kLow = std::is_same_v<T, std::int8_t> ? -128 : 0;
  constexpr std::int32_t kHigh = std::is_same_v<T, std::int8_t> ? 127 : 255;
  return static_cast<T>(value < kLow ? kLow : value > kHigh ? kHigh : value);
}

// f64 goes with double alone: that is what decides the compute type.
template <class C>
__device__ __forceinline__ C load_any(AnyType type, const void* base, std::int64_t at) {
  switch (type) {
    case AnyType::f64:
      if constexpr (std::is_same_v<C, double>) return static_cast<const double*>(base)[at];
      return C(0);
    case AnyType::f16:
      return widen<C>(static_cast<const Half*>(base)[at]);
    case AnyType::bf16:
      return widen<C>(static_cast<const BFloat16*>(base)[at]);
    case AnyType::i8:
      return static_cast<C>(static_cast<const std::int8_t*>(base)[at]);
    case AnyType::u8:
      return static_cast<C>(static_cast<const std::uint8_t*>(base)[at]);
    case AnyType::i32:
      return static_cast<C>(static_cast<const std::int32_t*>(base)[at]);
    default:
      return static_cast<C>(static_cast<const float*>(base)[at]);
  }
}

template <class C>
__device__ __forceinline__ void store_any(AnyType type, void* base, std::int64_t at, C value) {
  switch (type) {
    case AnyType::f64:
      if constexpr (std::is_same_v<C, double>) static_cast<double*>(base)[at] = value;
      break;
    case AnyType::f16:
      static_cast<Half*>(base)[at] = narrow<Half>(value);
      break;
    case AnyType::bf16:
      static_cast<BFloat16*>(base)[at] = narrow<BFloat16>(value);
      break;
    case AnyType::i8:
      static_cast<std::int8_t*>(base)[at] = held<std::int8_t>(nearest_integer(value));
      break;
    case AnyType::u8:
      static_cast<std::uint8_t*>(base)[at] = held<std::uint8_t>(nearest_integer(value));
      break;
    case AnyType::i32:
      static_cast<std::int32_t*>(base)[at] = nearest_integer(value);
      break;
    default:
      static_cast<float*>(base)[at] = static_cast<float>(value);
      break;
  }
}

}  // namespace gpudnn::tile
