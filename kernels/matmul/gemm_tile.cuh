// What the matrix product kernels for any strides share: which tile a block makes, and what becomes of its sums.
//
// Sums pass through shared memory, 16 rows of the tile at a time, so that the epilogue's code exists once, whatever it
// does, and stores whole rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/matmul/element.cuh"
#include "kernels/matmul/gemm_params.hpp"

namespace gpudnn::kernels::matmul {

// What a block works on.
struct GemmTile {
  std::int64_t m0, n0;               // where it starts
  std::int64_t outer, inner;         // batch
  std::int64_t m_end, n_end, k_end;  // extents that count
};

__device__ __forceinline__ std::int64_t overridden(const void* values, bool wide, std::int64_t index,
                                                   std::int64_t extent) {
  if (values == nullptr) return extent;
  const std::int64_t value =
      wide ? static_cast<const std::int64_t*>(values)[index] : static_cast<const std::int32_t*>(values)[index];
  return value < 0 ? 0 : value < extent ? value : extent;
}

// Tiles of a batch run down eight rows of tiles before they go on to the right, so that blocks at work at one time
// share rows of a and columns of b in the L2.
template <class Config>
__device__ __forceinline__ GemmTile tile_of(const GemmParams& p, std::int64_t index) {
  const std::int64_t down = (p.m + Config::kM - 1) / Config::kM;
  const std::int64_t across = (p.n + Config::kN - 1) / Config::kN;
  const std::int64_t batch = index / (down * across);
  std::int64_t rest = index % (down * across);
  constexpr std::int64_t kGroup = 8;
  const std::int64_t group = rest / (kGroup * across);
  const std::int64_t in_group = down - group * kGroup < kGroup ? down - group * kGroup : kGroup;
  rest -= group * kGroup * across;
  GemmTile t;
  t.m0 = (group * kGroup + rest % in_group) * Config::kM;
  t.n0 = rest / in_group * Config::kN;
  t.outer = batch / p.inner_batches;
  t.inner = batch % p.inner_batches;
  const std::int64_t which = p.overrides.by_outer ? t.outer : batch;
  t.m_end = overridden(p.overrides.m, p.overrides.wide, which, p.m);
  t.n_end = overridden(p.overrides.n, p.overrides.wide, which, p.n);
  t.k_end = overridden(p.overrides.k, p.overrides.wide, which, p.k);
  return t;
}

__device__ __forceinline__ int clamped(std::int64_t left, int most) {
  return left < 0 ? 0 : left < most ? static_cast<int>(left) : most;
}

template <class T>
__device__ __forceinline__ const T* operand_start(const GemmOperand& o, const GemmTile& t, std::int64_t row) {
  return static_cast<const T*>(o.data) + t.outer / o.repeat[0] * o.batch_stride[0] +
         t.inner / o.repeat[1] * o.batch_stride[1] + row * o.row_stride;
}

template <class Config>
__device__ __forceinline__ std::int64_t tile_count(const GemmParams& p) {
  return p.batches * ((p.m + Config::kM - 1) / Config::kM) * ((p.n + Config::kN - 1) / Config::kN);
}

__device__ __forceinline__ std::int64_t matrix_start(const GemmMatrix& x, const GemmTile& t) {
  return t.outer * x.batch_stride[0] + t.inner * x.batch_stride[1];
}

// Four neighbours of a row: from sums to d. Returns the greatest magnitude before the scale of d, by its bits as a
// float, which order magnitudes with NaN above all.
template <class E>
__device__ __forceinline__ std::uint32_t finish_four(const GemmParams& p, const GemmTile& t, std::int64_t m,
                                                     std::int64_t n, E alpha, E (&v)[4]) {
  const int in_d = clamped(p.n - n, 4);
  const int counted = m < t.m_end ? clamped(t.n_end - n, 4) : 0;
  std::uint32_t greatest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= counted) {
      v[i] = static_cast<E>(p.padding);
      continue;
    }
    v[i] *= alpha;
    if (p.c.data != nullptr) {
      const std::int64_t at = matrix_start(p.c, t) + m * p.c.m_stride + (n + i) * p.c.n_stride;
      v[i] += static_cast<E>(p.beta) * load_element<E>(p.c.type, p.c.data, at);
    }
    if (p.bias.data != nullptr) {
      const std::int64_t at = matrix_start(p.bias, t) + m * p.bias.m_stride + (n + i) * p.bias.n_stride;
      v[i] += load_element<E>(p.bias.type, p.bias.data, at);
    }
  }
#pragma unroll 1
  for (int turn = 0; p.activation.mode != Activation::identity && turn < 4;
       ++turn) {  // one copy of the functions' code
    const E value = turn < counted ? gemm::activate(p.activation, v[0]) : v[0];
    v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = value;
  }
  const E scale = p.scale_d != nullptr ? static_cast<E>(*p.scale_d) : E(1);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= counted) continue;
    const std::uint32_t bits = __float_as_uint(static_cast<float>(v[i])) & 0x7fffffffu;
    greatest = bits > greatest ? bits : greatest;
    if (p.scale_d != nullptr) v[i] *= scale;
  }
  const std::int64_t at = matrix_start(p.d, t) + m * p.d.m_stride + n * p.d.n_stride;
  store_elements(p.d.type, p.d.data, at, p.d.n_stride, p.has_padding ? in_d : counted, p.d.vectors, v);
  return greatest;
}

template <class E>
__device__ __forceinline__ E whole_alpha(const GemmParams& p) {
  E alpha = static_cast<E>(p.alpha);
  if (p.descale_a != nullptr) alpha *= static_cast<E>(*p.descale_a);
  if (p.descale_b != nullptr) alpha *= static_cast<E>(*p.descale_b);
  return alpha;
}

// kLines rows of sums in shared memory, kWidth apart, of which row_of(line) tells the place in the tile. Returns the
// greatest magnitude, as finish_four.
template <class E, int kLines, int kN, int kWidth, class RowOf>
__device__ __forceinline__ std::uint32_t finish_rows(const GemmParams& p, const GemmTile& t, const E* sums, E alpha,
                                                     RowOf row_of) {
  std::uint32_t greatest = 0;
  constexpr int kFours = kLines * kN / 4;
#pragma unroll 1
  for (int f = static_cast<int>(threadIdx.x); f < kFours; f += kGemmThreads) {
    const int line = f / (kN / 4);
    const int column = f % (kN / 4) * 4;
    const std::int64_t m = t.m0 + row_of(line);
    const std::int64_t n = t.n0 + column;
    if (m >= p.m || n >= p.n) continue;
    const auto four = *reinterpret_cast<const Vector4<E>*>(sums + line * kWidth + column);
    E v[4] = {four.data[0], four.data[1], four.data[2], four.data[3]};
    const std::uint32_t bits = finish_four(p, t, m, n, alpha, v);
    greatest = bits > greatest ? bits : greatest;
  }
  return greatest;
}

// Of all threads of the block into p.amax, where there is one: the greatest of all does not depend on their order.
__device__ __forceinline__ void merge_amax(const GemmParams& p, std::uint32_t greatest) {
  if (p.amax == nullptr) return;
  __shared__ std::uint32_t of_block;
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  atomicMax(&of_block, greatest);
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<std::uint32_t*>(p.amax), of_block);
}

}  // namespace gpudnn::kernels::matmul
