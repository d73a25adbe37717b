// The filter of the Hopper forward convolution for few channels in shared memory, and wgmma's descriptor of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/small_c/small_c_fwd_sm90.hpp"
#include "kernels/gemm/epilogue/channel_value.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::small_c_fwd {

template <class T>
inline constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

// As TMA rounds x. Where that would make an infinity of a number, it is cut.
__device__ __forceinline__ std::uint32_t rounded_to_tf32(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return (bits & 0x7fffffffu) < 0x7f7ff000u ? (bits + 0x1000u) & 0xffffe000u : bits;
}

// A word of the filters' columns: a thread's, which the columns have in common.
template <class T>
struct FilterWord {
  std::uint32_t to;            // of column 0, bytes in shared memory
  bool exists[kPerWord<T>];    // in the row of taps
  const T* from[kPerWord<T>];  // of filter 0
};
template <class T, int kN>
__device__ __forceinline__ FilterWord<T> filter_word(const Params& p, std::uint32_t number) {
  const std::uint32_t words = p.quads.divisor * 4;
  const std::uint32_t version = number / words;
  const std::uint32_t quad = number % words / 4;
  const std::uint32_t t = number % 4;
  std::uint32_t in_row = 0;
  const std::uint32_t row = p.row_quads.divmod(quad, &in_row);
  FilterWord<T> word;
  word.to = p.filter_offset + version * p.version_bytes + filter_word_offset(kN, quad, 0, t);
#pragma unroll
  for (int i = 0; i < kPerWord<T>; ++i) {
    const std::int32_t e = element_of_word(kPerWord<T>, in_row * 4 + t, i, shift_of_version(p, version));
    word.exists[i] = row < p.rows && e >= 0 && e < static_cast<std::int32_t>(p.row_elements);
    std::uint32_t channel = 0;
    const std::uint32_t s = p.channels.divmod(word.exists[i] ? static_cast<std::uint32_t>(e) : 0, &channel);
    word.from[i] = static_cast<const T*>(p.filter) + p.filter_base + row * p.tap_step_h + s * p.tap_step_w +
                   channel * p.channel_step;
  }
  return word;
}

template <class T>
__device__ __forceinline__ std::uint32_t load_filter_word(const Params& p, const FilterWord<T>& word,
                                                          std::uint32_t filter) {
  const auto element = [&](int i) {
    return word.exists[i] && filter < p.filters ? word.from[i][filter * p.filter_step] : tile::narrow<T>(0.0f);
  };
  if constexpr (kPerWord<T> == 1) {
    return rounded_to_tf32(element(0));
  } else {
    const T low = element(0);
    return tile::word_of<T>(low, element(1));
  }
}

template <class T, int kN, int kThreads>
__device__ __forceinline__ void pack_filter(const Params& p, std::uint32_t first_filter, unsigned char* shared) {
  constexpr std::uint32_t kAtOnce = 8;
  std::uint32_t number = 0;
  const std::uint32_t first = p.filter_words.divmod(threadIdx.x, &number);
  for (; number < p.filter_words.divisor && first < p.filter_lanes; number += kThreads) {
    const FilterWord<T> word = filter_word<T, kN>(p, number);
#pragma unroll 1
    for (std::uint32_t n = first; n < kN; n += kAtOnce * p.filter_lanes) {
      std::uint32_t bits[kAtOnce];
#pragma unroll
      for (std::uint32_t i = 0; i < kAtOnce; ++i) {
        const std::uint32_t column = n + i * p.filter_lanes;
        bits[i] = load_filter_word<T>(p, word, first_filter + filter_of_column(kPerWord<T>, column));
      }
#pragma unroll
      for (std::uint32_t i = 0; i < kAtOnce; ++i) {
        const std::uint32_t column = n + i * p.filter_lanes;
        if (column < kN) *reinterpret_cast<std::uint32_t*>(shared + word.to + column * kQuadBytes) = bits[i];
      }
    }
  }
  auto* const bias = reinterpret_cast<float*>(shared + p.bias_offset);
  for (std::uint32_t i = threadIdx.x; i < kN; i += kThreads) {
    const std::uint32_t filter = first_filter + i;
    bias[i] = p.has_bias && filter < p.filters
                  ? gemm::channel_value<T>(p.bias, static_cast<std::int64_t>(filter) * p.bias_step, p.float_vectors)
                  : 0.0f;
  }
}

// Without a swizzle, K-major: core matrices that follow in n lie next to each other, those that follow in k kN columns
// further.
template <int kN>
__device__ __forceinline__ std::uint64_t filter_descriptor(const unsigned char* filter) {
  return static_cast<std::uint64_t>(8 * kQuadBytes >> 4) << 32 |
         static_cast<std::uint64_t>(kN * kQuadBytes >> 4) << 16 |
         static_cast<std::uint64_t>((ptx::shared_address(filter) & 0x3ffffu) >> 4);
}

}  // namespace gpudnn::kernels::small_c_fwd
