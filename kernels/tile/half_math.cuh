// Arithmetic on 16-bit elements, and on two of them as they lie in a word: the toolkit's types and functions, for
// kernels that compute in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/tile/numeric.cuh"

namespace gpudnn::tile {

template <class T>
using OneOf = std::conditional_t<std::is_same_v<T, Half>, __half, __nv_bfloat16>;
template <class T>
__device__ __forceinline__ OneOf<T> as_one(T element) {
  OneOf<T> one;
  memcpy(&one, &element, sizeof one);
  return one;
}
template <class T>
__device__ __forceinline__ T as_element(const OneOf<T>& one) {
  T element;
  memcpy(&element, &one, sizeof element);
  return element;
}

template <class T>
using TwoOf = std::conditional_t<std::is_same_v<T, Half>, __half2, __nv_bfloat162>;

// A word as it is: halves taken apart and joined cost four instructions more.
template <class T>
__device__ __forceinline__ TwoOf<T> as_two(std::uint32_t word) {
  TwoOf<T> two;
  memcpy(&two, &word, sizeof two);
  return two;
}
template <class T>
__device__ __forceinline__ std::uint32_t as_word(const TwoOf<T>& two) {
  std::uint32_t word;
  memcpy(&word, &two, sizeof word);
  return word;
}

}  // namespace gpudnn::tile
