// Element types on the device: what each is computed in, conversions, and packs of elements that one load moves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/ptx/cvt_bf16.cuh"
#include "kernels/ptx/cvt_f16.cuh"
#include "kernels/ptx/st_global.cuh"
#include "kernels/tile/element_type.hpp"

namespace gpudnn::tile {

// Double is computed in double, everything narrower in float.
template <class T>
struct ComputeOf {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

// Storage -> C.
template <class C, class T>
__device__ __forceinline__ C widen(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    return static_cast<C>(ptx::cvt_f32_f16(value.bits));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return static_cast<C>(__uint_as_float(std::uint32_t{value.bits} << 16));
  } else {
    return static_cast<C>(value);
  }
}

// The float next to value towards zero, its last bit set unless it is value itself: rounded once more to fewer bits, it
// gives what value would have given.
__device__ __forceinline__ float round_to_odd(double value) {
  const float toward_zero = __double2float_rz(value);
  return toward_zero == value ? toward_zero : __uint_as_float(__float_as_uint(toward_zero) | 1u);
}

// C -> storage, rounded to nearest even, as if once.
template <class T, class C>
__device__ __forceinline__ T narrow(C value) {
  if constexpr (std::is_same_v<T, Half>) {
    if constexpr (std::is_same_v<C, double>)
      return {ptx::cvt_rn_f16_f64(value)};
    else
      return {ptx::cvt_rn_f16_f32(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    if constexpr (std::is_same_v<C, double>)
      return {ptx::cvt_rn_bf16_f32(round_to_odd(value))};
    else
      return {ptx::cvt_rn_bf16_f32(static_cast<float>(value))};
  } else {
    return static_cast<T>(value);
  }
}

// Two 16-bit elements of a word.
template <class T>
__device__ __forceinline__ T half_of(std::uint32_t word, int which) {
  return T{static_cast<std::uint16_t>(which == 0 ? word & 0xffffu : word >> 16)};
}
template <class T>
__device__ __forceinline__ std::uint32_t word_of(T low, T high) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return __byte_perm(low.bits, high.bits, 0x5410);
  } else {
    return __byte_perm(low, high, 0x5410);
  }
}

// Of memory that no thread writes meanwhile.
template <class T>
__device__ __forceinline__ T load_constant(const T* pointer) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return {__ldg(&pointer->bits)};
  } else {
    return __ldg(pointer);
  }
}

// N elements that move together, aligned so that one load or store of up to 16 bytes takes them.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T data[N];

  __device__ __forceinline__ T get(int i) const { return data[i]; }
  __device__ __forceinline__ void fill(T value) {
#pragma unroll
    for (int i = 0; i < N; ++i) data[i] = value;
  }
};

// 16-bit elements are kept as words: as separate halves each would take a register, or be shuffled in and out of one.
template <class T, int N>
requires(sizeof(T) == 2 && N % 2 == 0) struct alignas(2 * N < 16 ? 2 * N : 16) Pack<T, N> {
  std::uint32_t words[N / 2];

  __device__ __forceinline__ T get(int i) const { return half_of<T>(words[i / 2], i % 2); }
  __device__ __forceinline__ void fill(T value) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) words[i] = word_of(value, value);
  }
};
template <class T, int N>
inline constexpr bool kPackHasWords = sizeof(T) == 2 && N % 2 == 0;

// N such that the widest of the types fills 16 bytes.
template <class... T>
inline constexpr int kPackWidth = [] {
  std::size_t widest = 1;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return static_cast<int>(widest >= 16 ? 1 : 16 / widest);
}();

// The built-in type that moves a pack in one instruction. A struct of the same size is at times taken apart into words.
template <int kBytes>
struct VectorOf;
template <>
struct VectorOf<16> {
  using type = uint4;
};
template <>
struct VectorOf<8> {
  using type = uint2;
};
template <>
struct VectorOf<4> {
  using type = unsigned int;
};
template <>
struct VectorOf<2> {
  using type = unsigned short;
};
template <>
struct VectorOf<1> {
  using type = unsigned char;
};

template <class T, int N>
__device__ __forceinline__ Pack<T, N> load_pack(const T* pointer) {
  if constexpr (sizeof(Pack<T, N>) <= 16) {
    const auto bits = *reinterpret_cast<const typename VectorOf<sizeof(Pack<T, N>)>::type*>(pointer);
    Pack<T, N> pack;
    memcpy(&pack, &bits, sizeof pack);
    return pack;
  } else {
    return *reinterpret_cast<const Pack<T, N>*>(pointer);
  }
}
// To global memory. The intrinsic keeps the store in one piece, which the compiler does not for a plain assignment of
// many packs.
template <class T, int N>
__device__ __forceinline__ void store_pack(T* pointer, const Pack<T, N>& pack) {
  constexpr int kBytes = static_cast<int>(sizeof(Pack<T, N>));
  if constexpr (kBytes == 8 || kBytes == 16) {
    typename VectorOf<kBytes>::type bits;
    memcpy(&bits, &pack, sizeof pack);
    ptx::st_global(reinterpret_cast<typename VectorOf<kBytes>::type*>(pointer), bits);
  } else {
    *reinterpret_cast<Pack<T, N>*>(pointer) = pack;
  }
}

template <class C, class T, int N>
__device__ __forceinline__ void widen_pack(const Pack<T, N>& pack, C (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = widen<C>(pack.get(i));
}

// Two at a time where the target has an instruction for it.
template <class T, class C, int N>
__device__ __forceinline__ Pack<T, N> narrow_pack(const C (&values)[N]) {
  Pack<T, N> pack;
  if constexpr (kPackHasWords<T, N>) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      if constexpr (std::is_same_v<C, float> && std::is_same_v<T, Half>) {
        pack.words[i / 2] = ptx::cvt_rn_f16x2_f32(values[i + 1], values[i]);
      } else if constexpr (std::is_same_v<C, float> && std::is_same_v<T, BFloat16>) {
        pack.words[i / 2] = ptx::cvt_rn_bf16x2_f32(values[i + 1], values[i]);
      } else {
        pack.words[i / 2] = word_of(narrow<T>(values[i]), narrow<T>(values[i + 1]));
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.data[i] = narrow<T>(values[i]);
  }
  return pack;
}

}  // namespace gpudnn::tile
