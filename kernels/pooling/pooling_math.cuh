// The arithmetic of pooling, shared by its kernels.
//
// Maximum: of the window's elements inside the image. A NaN is passed over, or makes the result NaN if told to
// propagate. A window with nothing to choose gives the lowest finite value. Passing over starts from NaN: the maximum
// of a NaN and a number is the number, so a NaN is left only where there was no number. Average: the sum over the
// elements inside, in float (double for double), divided by their count or by that of the window's positions inside the
// padded image; 0 where that count is 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>

#include "kernels/pooling/pooling.hpp"
#include "kernels/ptx/max_nan.cuh"
#include "kernels/tile/half_math.cuh"

namespace gpudnn::kernels {

template <class T>
__device__ __forceinline__ T lowest_finite() {
  if constexpr (std::is_same_v<T, tile::Half>) {
    return {0xfbff};
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {
    return {0xff7f};
  } else if constexpr (std::is_same_v<T, float>) {
    return -FLT_MAX;
  } else {
    return -DBL_MAX;
  }
}

template <class T>
__device__ __forceinline__ bool is_nan(T value) {
  return tile::widen<tile::Compute<T>>(value) != tile::widen<tile::Compute<T>>(value);
}

// What a maximum starts from.
template <class T, bool kNan>
__device__ __forceinline__ T max_identity() {
  return tile::narrow<T>(tile::Compute<T>(kNan ? -INFINITY : NAN));
}

template <bool kNan, class T>
__device__ __forceinline__ T max_of(T a, T b) {
  if constexpr (std::is_same_v<T, tile::Half> || std::is_same_v<T, tile::BFloat16>) {
    const auto one = tile::as_one(a), other = tile::as_one(b);
    return tile::as_element<T>(kNan ? __hmax_nan(one, other) : __hmax(one, other));
  } else if constexpr (std::is_same_v<T, float>) {
    return kNan ? ptx::max_nan(a, b) : fmaxf(a, b);
  } else {
    return kNan ? (a != a || a > b ? a : b) : fmax(a, b);
  }
}

// Two elements at a time where the type has it.
template <bool kNan, class T, int N>
__device__ __forceinline__ void take_max(const tile::Pack<T, N>& values, tile::Pack<T, N>* most) {
  if constexpr (tile::kPackHasWords<T, N>) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const auto a = tile::as_two<T>(most->words[i]), b = tile::as_two<T>(values.words[i]);
      most->words[i] = tile::as_word<T>(kNan ? __hmax2_nan(a, b) : __hmax2(a, b));
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) most->data[i] = max_of<kNan>(most->data[i], values.data[i]);
  }
}

// The maximum found, or the lowest finite value where there was nothing to choose.
template <bool kNan, class T>
__device__ __forceinline__ T finish_max(T most, bool empty) {
  return (kNan ? empty : is_nan(most)) ? lowest_finite<T>() : most;
}

// out = alpha * value + beta * out for a pack.
template <class T, int N>
__device__ __forceinline__ void store_scaled(tile::Compute<T> (&values)[N], tile::Compute<T> alpha,
                                             tile::Compute<T> beta, T* out) {
  using C = tile::Compute<T>;
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] *= alpha;
  if (beta != C(0)) {
    C old[N];
    tile::widen_pack<C>(tile::load_pack<T, N>(out), old);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += beta * old[i];
  }
  tile::store_pack<T, N>(out, tile::narrow_pack<T>(values));
}

}  // namespace gpudnn::kernels
