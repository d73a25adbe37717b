// Element types on the device: what each is computed in, conversions, and packs of elements that one load moves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace gpudnn::tile {

using Half = __half;
using BFloat16 = __nv_bfloat16;

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
    return static_cast<C>(__half2float(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return static_cast<C>(__bfloat162float(value));
  } else {
    return static_cast<C>(value);
  }
}

// C -> storage, rounded to nearest even, once: double goes to the 16-bit types without a stop at float.
template <class T, class C>
__device__ __forceinline__ T narrow(C value) {
  if constexpr (std::is_same_v<T, Half>) {
    if constexpr (std::is_same_v<C, double>)
      return __double2half(value);
    else
      return __float2half_rn(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    if constexpr (std::is_same_v<C, double>)
      return __double2bfloat16(value);
    else
      return __float2bfloat16_rn(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// N elements that move together, aligned so that one load or store of up to 16 bytes takes them.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T data[N];
};

// N such that the widest of the types fills 16 bytes.
template <class... T>
inline constexpr int kPackWidth = [] {
  std::size_t widest = 1;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return static_cast<int>(widest >= 16 ? 1 : 16 / widest);
}();

template <class T, int N>
__device__ __forceinline__ Pack<T, N> load_pack(const T* pointer) {
  return *reinterpret_cast<const Pack<T, N>*>(pointer);
}
template <class T, int N>
__device__ __forceinline__ void store_pack(T* pointer, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(pointer) = pack;
}

template <class C, class T, int N>
__device__ __forceinline__ void widen_pack(const Pack<T, N>& pack, C (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = widen<C>(pack.data[i]);
}

// Two at a time where the target has an instruction for it.
template <class T, class C, int N>
__device__ __forceinline__ Pack<T, N> narrow_pack(const C (&values)[N]) {
  Pack<T, N> pack;
  if constexpr (std::is_same_v<C, float> && N % 2 == 0 && std::is_same_v<T, Half>) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const __half2 pair = __floats2half2_rn(values[i], values[i + 1]);
      pack.data[i] = __low2half(pair);
      pack.data[i + 1] = __high2half(pair);
    }
  } else if constexpr (std::is_same_v<C, float> && N % 2 == 0 && std::is_same_v<T, BFloat16>) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(values[i], values[i + 1]);
      pack.data[i] = __low2bfloat16(pair);
      pack.data[i + 1] = __high2bfloat16(pair);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.data[i] = narrow<T>(values[i]);
  }
  return pack;
}

}  // namespace gpudnn::tile
