// Weights in vectors of 16 bytes, as the sweeps that stay on the chip load them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::kernels {

// 16 bytes of elements, of which the first `valid` are there; the others are zeros.
template <class T>
__device__ __forceinline__ uint4 rnn_vector(const T* from, int valid, bool vectors) {
  constexpr int kCount = 16 / sizeof(T);
  if (valid <= 0) return make_uint4(0, 0, 0, 0);
  if (vectors && valid >= kCount) return *reinterpret_cast<const uint4*>(from);
  std::uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= valid) break;
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(from[i]);
    } else {
      words[i / 2] |= std::uint32_t{from[i].bits} << (16 * (i % 2));
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Vectors of as many elements as there are of them: rows become columns.
template <class T>
__device__ __forceinline__ void rnn_transpose(uint4 (&vectors)[16 / sizeof(T)]) {
  constexpr int kCount = 16 / sizeof(T);
  std::uint32_t in[kCount][4];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    in[i][0] = vectors[i].x, in[i][1] = vectors[i].y, in[i][2] = vectors[i].z, in[i][3] = vectors[i].w;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    std::uint32_t out[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (sizeof(T) == 4) {
        out[w] = in[w][i];
      } else {
        out[w] = __byte_perm(in[2 * w][i / 2], in[2 * w + 1][i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
      }
    }
    vectors[i] = make_uint4(out[0], out[1], out[2], out[3]);
  }
}

}  // namespace gpudnn::kernels
