// The epilogue of the Hopper convolution of 8-bit floats: from the sums in registers to C, whose type is told at run
// time.
//
// A thread has two neighbouring columns of each group of eight. Four threads of a row exchange theirs over four groups,
// so that each has eight neighbours, and they write 32 elements together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/float8/float8_sm90.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_work.cuh"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/with_number.cuh"
#include "kernels/ptx/cvt_f8.cuh"
#include "kernels/ptx/gpu_scope.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/tile/any_pack.cuh"
#include "kernels/tile/transpose_quad.cuh"

namespace gpudnn::kernels::float8 {

using sm90::Work;
using tile::AnyType;

// What a thread knows before its first element.
struct StoreState {
  float alpha;
  float c_alpha;
  std::uint32_t amax = 0;  // the bits of a magnitude

  __device__ __forceinline__ explicit StoreState(const Params& p) : alpha(p.gemm.alpha), c_alpha(p.c_alpha) {
#pragma unroll
    for (int i = 0; i < kMaxFactors; ++i) {
      if (p.factors[i] != nullptr) alpha *= *p.factors[i];
      if (p.c_factors[i] != nullptr) c_alpha *= *p.c_factors[i];
    }
  }
};

// By whole warps, after the last element. The greatest of all does not depend on an order.
__device__ __forceinline__ void finish_amax(const Params& p, const StoreState& state) {
  if (p.amax == nullptr) return;
  const std::uint32_t amax = __reduce_max_sync(0xffffffffu, state.amax);
  if (threadIdx.x % 32 == 0 && amax != 0) {
    ptx::red_relaxed_gpu_max(reinterpret_cast<std::uint32_t*>(p.amax), amax);
  }
}

__device__ __forceinline__ float bias_of(const Params& p, std::uint32_t group, std::uint32_t n) {
  const std::int64_t channel = static_cast<std::int64_t>(group) * p.gemm.group_columns + n;
  return tile::load_any<float>(p.bias_type, static_cast<const char*>(p.gemm.bias) + channel * p.gemm.bias_step, 0);
}

// v of N sums, whose columns column(i) exist where exists(i).
template <int N, class Column, class Exists>
__device__ __forceinline__ void finish(const Params& p, std::uint32_t group, StoreState* state, Column column,
                                       Exists exists, float (&v)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] *= state->alpha;
  if (p.gemm.has_bias) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (column(i) < p.gemm.n_count) v[i] += bias_of(p, group, column(i));
    }
  }
  gemm::activate(p.gemm.activation, p.c_type != AnyType::f32, v);
  if (p.amax != nullptr) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (exists(i)) state->amax = max(state->amax, __float_as_uint(v[i]) & 0x7fffffffu);
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] *= state->c_alpha;
}

__device__ __forceinline__ std::uint16_t pair_of_bytes(AnyType type, float low, float high) {
  return type == AnyType::e5m2 ? ptx::cvt_rn_satfinite_e5m2x2_f32(high, low)
                               : ptx::cvt_rn_satfinite_e4m3x2_f32(high, low);
}

// 8 values of a row, two of each group of eight columns, to the 32 elements from `at` on. kBytes: of an element.
template <int kBytes>
__device__ __forceinline__ void store_row(AnyType type, void* c, std::int64_t at, bool exists, const float (&v)[8]) {
  const std::uint32_t thread = threadIdx.x % 4;
  if constexpr (kBytes == 1) {
    std::uint32_t words[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      words[i] = pair_of_bytes(type, v[4 * i], v[4 * i + 1]) |
                 static_cast<std::uint32_t>(pair_of_bytes(type, v[4 * i + 2], v[4 * i + 3])) << 16;
    }
    const uint2 bytes = tile::transpose_quad(words[0], words[1]);
    if (exists) *reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(c) + at + thread * 8) = bytes;
  } else if constexpr (kBytes == 2) {
    std::uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      words[j] = type == AnyType::bf16 ? ptx::cvt_rn_bf16x2_f32(v[2 * j + 1], v[2 * j])
                                       : ptx::cvt_rn_f16x2_f32(v[2 * j + 1], v[2 * j]);
    }
    const uint4 elements = tile::transpose_quad(words);
    if (exists) *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(c) + at + thread * 8) = elements;
  } else {
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) {
      if (!exists) continue;
      *reinterpret_cast<float2*>(static_cast<float*>(c) + at + j * 8 + thread * 2) =
          make_float2(v[2 * j], v[2 * j + 1]);
    }
  }
}

// The tile where there is neither bias nor activation, and all of its columns exist. Rows that do not exist are zeros,
// and so no greatest magnitude.
template <class I, int kBytes>
__device__ __forceinline__ void store_plain(const Params& p, const Work& work, int consumer, const StoreState& state,
                                            const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  const sm90::Params& g = p.gemm;
  const float scale = state.alpha * state.c_alpha;
  const std::int64_t channel = static_cast<std::int64_t>(work.group) * g.group_columns + work.n * I::kBN;
  const auto first = static_cast<std::uint32_t>(consumer * I::kRowBlocks);
#pragma unroll
  for (std::uint32_t block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t m = work.m * I::kBM + I::row_of_fragment(first + block, threadIdx.x % 128, half);
      std::int64_t row = sm90::row_offset<I>(g, work, m, g.c_step, g.c_is_even);
      ptx::pin(&row);  // not all of them at once
#pragma unroll
      for (int part = 0; part < I::kBN / 32; ++part) {
        float v[8];
#pragma unroll
        for (std::uint32_t i = 0; i < 8; ++i) v[i] = scale * sum[block][part * 16 + i / 2 * 4 + half * 2 + i % 2];
        store_row<kBytes>(p.c_type, g.c, row + channel + part * 32, row >= 0, v);
      }
    }
  }
}

template <class I>
__device__ __forceinline__ void note_amax(const float (&sum)[I::kRowBlocks][I::kBN / 2], StoreState* state) {
  std::uint32_t greatest = 0;
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < I::kBN / 2; ++i) greatest = max(greatest, __float_as_uint(sum[block][i]) & 0x7fffffffu);
  }
  // Rounding keeps the order of magnitudes.
  const float scaled = __uint_as_float(greatest) * state->alpha;
  state->amax = max(state->amax, __float_as_uint(scaled) & 0x7fffffffu);
}

__device__ __forceinline__ void store_element(const Params& p, std::int64_t at, float value) {
  tile::write_any(p.c_type, static_cast<char*>(p.gemm.c) + at * tile::any_type_bytes(p.c_type), value);
}

// The tile's rows of a consumer, 32 columns of 64 rows at a time, element by element: one piece of code for all of
// them.
template <class I>
__device__ __forceinline__ void store_general(const Params& p, const Work& work, int consumer, StoreState* state,
                                              const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  constexpr int kParts = I::kBN / 32;
  const sm90::Params& g = p.gemm;
  const std::uint32_t inside = threadIdx.x % 4 * 2;
#pragma unroll 1
  for (int number = 0; number < I::kRowBlocks * kParts; ++number) {
    const std::uint32_t first = work.n * I::kBN + static_cast<std::uint32_t>(number % kParts * 32);
    if (first >= g.n_count) continue;
    float v[16];  // of groups of eight columns: two of the upper row, two of the lower
    gemm::with_number<I::kRowBlocks * kParts>(number, [&](auto part) {
#pragma unroll
      for (int i = 0; i < 16; ++i) v[i] = sum[part / kParts][part % kParts * 16 + i];
    });
    const std::uint32_t block = static_cast<std::uint32_t>(consumer * I::kRowBlocks + number / kParts);
    std::int64_t row[2];
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t m = work.m * I::kBM + I::row_of_fragment(block, threadIdx.x % 128, half);
      row[half] = sm90::row_offset<I>(g, work, m, g.c_step, g.c_is_even);
    }
    const auto column = [&](int i) { return first + static_cast<std::uint32_t>(i / 4 * 8 + i % 2) + inside; };
    const auto exists = [&](int i) { return row[i % 4 / 2] >= 0 && column(i) < g.n_count; };
    finish(p, work.group, state, column, exists, v);
    const std::int64_t channel = static_cast<std::int64_t>(work.group) * g.group_columns + first;
    if (p.stores_vectors && first + 32 <= g.n_count) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float of_row[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) of_row[i] = v[i / 2 * 4 + half * 2 + i % 2];
        const std::int64_t at = row[half] + channel;
        const int bytes = tile::any_type_bytes(p.c_type);
        if (bytes == 1) {
          store_row<1>(p.c_type, g.c, at, row[half] >= 0, of_row);
        } else if (bytes == 2) {
          store_row<2>(p.c_type, g.c, at, row[half] >= 0, of_row);
        } else {
          store_row<4>(p.c_type, g.c, at, row[half] >= 0, of_row);
        }
      }
      continue;
    }
    // Registers have no addresses: each value has its turn in the first place.
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
      const bool lower = i % 4 >= 2;
      if ((lower ? row[1] : row[0]) >= 0 && column(i) < g.n_count) {
        store_element(p, (lower ? row[1] : row[0]) + (channel + i / 4 * 8 + i % 2 + inside) * p.c_column_step, v[0]);
      }
#pragma unroll
      for (int j = 0; j < 15; ++j) v[j] = v[j + 1];
    }
  }
}

template <class I>
__device__ __forceinline__ void store_tile(const Params& p, const Work& work, int consumer, StoreState* state,
                                           const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  const bool plain = p.stores_vectors && p.c_type != AnyType::f32 && !p.gemm.has_bias &&
                     p.gemm.activation.mode == gemm::Activation::identity && (work.n + 1) * I::kBN <= p.gemm.n_count;
  if (!plain) return store_general<I>(p, work, consumer, state, sum);
  if (p.amax != nullptr) note_amax<I>(sum, state);
  if (tile::any_type_bytes(p.c_type) == 1) {
    store_plain<I, 1>(p, work, consumer, *state, sum);
  } else {
    store_plain<I, 2>(p, work, consumer, *state, sum);
  }
}

}  // namespace gpudnn::kernels::float8
