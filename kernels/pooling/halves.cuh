// 16-bit elements two to a word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/half_math.cuh"

namespace gpudnn::kernels {

template <class T>
__device__ __forceinline__ float2 wide_pair(std::uint32_t word) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    return ptx::cvt_f32_f16x2(word);
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
}

// Halves a and b, which are known at compile time, of words.
template <int kWords>
__device__ __forceinline__ std::uint32_t pick_halves(const std::uint32_t (&words)[kWords], int a, int b) {
  if (a % 2 == 0 && b == a + 1) return words[a / 2];
  return __byte_perm(words[a / 2], words[b / 2], (a % 2 == 0 ? 0x0010u : 0x0032u) | (b % 2 == 0 ? 0x5400u : 0x7600u));
}

}  // namespace gpudnn::kernels
