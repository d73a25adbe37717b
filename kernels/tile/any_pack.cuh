// Packs of N elements whose type is told at run time: from and to the compute type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/any_type.cuh"
#include "kernels/tile/fp8.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::tile {

// C -> 64-bit integer, as for 32 bits.
__device__ __forceinline__ std::int64_t nearest_long(double value) {
  return value != value ? 0 : __double2ll_rn(value);
}

template <class C>
__device__ __forceinline__ float as_float_once(C value) {
  if constexpr (sizeof(C) == 8)
    return odd_float(value);
  else
    return value;
}

// One element of a 1-byte type.
template <class C>
__device__ __forceinline__ C widen_byte(AnyType type, std::uint8_t bits) {
  switch (type) {
    case AnyType::i8:
      return static_cast<C>(static_cast<std::int8_t>(bits));
    case AnyType::boolean:
      return bits != 0 ? C(1) : C(0);
    case AnyType::e4m3:
      return static_cast<C>(float_of_e4m3(bits));
    case AnyType::e5m2:
      return static_cast<C>(float_of_e5m2(bits));
    default:
      return static_cast<C>(bits);
  }
}
template <class C>
__device__ __forceinline__ std::uint8_t narrow_byte(AnyType type, C value) {
  switch (type) {
    case AnyType::i8:
      return static_cast<std::uint8_t>(held<std::int8_t>(nearest_integer(value)));
    case AnyType::boolean:
      return value != C(0) ? 1 : 0;
    case AnyType::e4m3:
      return e4m3_of_float(as_float_once(value));
    case AnyType::e5m2:
      return e5m2_of_float(as_float_once(value));
    default:
      return held<std::uint8_t>(nearest_integer(value));
  }
}

// One element of any type.
template <class C>
__device__ __forceinline__ C read_any(AnyType type, const void* element) {
  switch (type) {
    case AnyType::f16:
      return widen<C>(*static_cast<const Half*>(element));
    case AnyType::bf16:
      return widen<C>(*static_cast<const BFloat16*>(element));
    case AnyType::f32:
      return static_cast<C>(*static_cast<const float*>(element));
    case AnyType::i32:
      return static_cast<C>(*static_cast<const std::int32_t*>(element));
    case AnyType::f64:
      return static_cast<C>(*static_cast<const double*>(element));
    case AnyType::i64:
      return static_cast<C>(*static_cast<const std::int64_t*>(element));
    default:
      return widen_byte<C>(type, *static_cast<const std::uint8_t*>(element));
  }
}
template <class C>
__device__ __forceinline__ void write_any(AnyType type, void* element, C value) {
  switch (type) {
    case AnyType::f16:
      *static_cast<Half*>(element) = narrow<Half>(value);
      break;
    case AnyType::bf16:
      *static_cast<BFloat16*>(element) = narrow<BFloat16>(value);
      break;
    case AnyType::f32:
      *static_cast<float*>(element) = static_cast<float>(value);
      break;
    case AnyType::i32:
      *static_cast<std::int32_t*>(element) = nearest_integer(value);
      break;
    case AnyType::f64:
      *static_cast<double*>(element) = static_cast<double>(value);
      break;
    case AnyType::i64:
      *static_cast<std::int64_t*>(element) = nearest_long(static_cast<double>(value));
      break;
    default:
      *static_cast<std::uint8_t*>(element) = narrow_byte(type, value);
      break;
  }
}

// The value as the type holds it.
template <class C>
__device__ __forceinline__ C rounded_to(AnyType type, C value) {
  switch (type) {
    case AnyType::f16:
      return widen<C>(narrow<Half>(value));
    case AnyType::bf16:
      return widen<C>(narrow<BFloat16>(value));
    case AnyType::f32:
      return static_cast<C>(static_cast<float>(value));
    case AnyType::i32:
      return static_cast<C>(nearest_integer(value));
    case AnyType::f64:
      return value;
    case AnyType::i64:
      return static_cast<C>(nearest_long(static_cast<double>(value)));
    default:
      return widen_byte<C>(type, narrow_byte(type, value));
  }
}

// P packs of N elements of a type of at most 4 bytes, each pack as it lies in N * bytes / 4 words. The type is told
// apart once for all elements.
template <int N, int P>
__device__ __forceinline__ void widen_any(AnyType type, const std::uint32_t (&words)[P][N], float* values) {
  if (type == AnyType::bf16) {
#pragma unroll
    for (int i = 0; i < N * P; ++i) {
      const std::uint32_t word = words[i / N][i % N / 2];
      values[i] = __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
    }
  } else if (type == AnyType::f16) {
#pragma unroll
    for (int i = 0; i < N * P; i += 2) {
      const float2 wide = ptx::cvt_f32_f16x2(words[i / N][i % N / 2]);
      values[i] = wide.x;
      values[i + 1] = wide.y;
    }
  } else if (type == AnyType::f32) {
#pragma unroll
    for (int i = 0; i < N * P; ++i) values[i] = __uint_as_float(words[i / N][i % N]);
  } else if (type == AnyType::i32) {
#pragma unroll
    for (int i = 0; i < N * P; ++i) values[i] = static_cast<float>(static_cast<std::int32_t>(words[i / N][i % N]));
  } else {
    const auto each = [&](AnyType known) {
#pragma unroll
      for (int i = 0; i < N * P; ++i) {
        values[i] = widen_byte<float>(known, static_cast<std::uint8_t>(words[i / N][i % N / 4] >> i % 4 * 8));
      }
    };
    switch (type) {
      case AnyType::i8:
        each(AnyType::i8);
        break;
      case AnyType::boolean:
        each(AnyType::boolean);
        break;
      case AnyType::e4m3:
        each(AnyType::e4m3);
        break;
      case AnyType::e5m2:
        each(AnyType::e5m2);
        break;
      default:
        each(AnyType::u8);
        break;
    }
  }
}

template <int N, int P>
__device__ __forceinline__ void narrow_any(AnyType type, const float* values, std::uint32_t (&words)[P][N]) {
  if (type == AnyType::bf16) {
#pragma unroll
    for (int i = 0; i < N * P; i += 2) {
      words[i / N][i % N / 2] = ptx::cvt_rn_bf16x2_f32(values[i + 1], values[i]);
    }
  } else if (type == AnyType::f16) {
#pragma unroll
    for (int i = 0; i < N * P; i += 2) {
      words[i / N][i % N / 2] = ptx::cvt_rn_f16x2_f32(values[i + 1], values[i]);
    }
  } else if (type == AnyType::f32) {
#pragma unroll
    for (int i = 0; i < N * P; ++i) words[i / N][i % N] = __float_as_uint(values[i]);
  } else if (type == AnyType::i32) {
#pragma unroll
    for (int i = 0; i < N * P; ++i) words[i / N][i % N] = static_cast<std::uint32_t>(nearest_integer(values[i]));
  } else {
    const auto each = [&](AnyType known) {
#pragma unroll
      for (int i = 0; i < N * P; ++i) {
        std::uint32_t& word = words[i / N][i % N / 4];
        const std::uint32_t bits = std::uint32_t{narrow_byte(known, values[i])} << i % 4 * 8;
        word = i % 4 == 0 ? bits : word | bits;
      }
    };
    switch (type) {
      case AnyType::i8:
        each(AnyType::i8);
        break;
      case AnyType::boolean:
        each(AnyType::boolean);
        break;
      case AnyType::e4m3:
        each(AnyType::e4m3);
        break;
      case AnyType::e5m2:
        each(AnyType::e5m2);
        break;
      default:
        each(AnyType::u8);
        break;
    }
  }
}

}  // namespace gpudnn::tile
