// What the general engine's kernels for 8-bit floats share: elements whose type is told at run time, the products of
// attention_simt_tile.cuh with them, rounding in registers, and greatest magnitudes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_float8.cuh"
#include "kernels/attention/attention_simt_float8.hpp"
#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/tile/fp8.hpp"

namespace gpudnn::kernels::attention_simt {

// A tensor and its type.
struct Source {
  const AttentionTensor& tensor;
  tile::AnyType type;

  __device__ __forceinline__ float load(std::int64_t row_offset, int column) const {
    const std::int64_t at = row_offset + column * tensor.strides[3];
    switch (type) {
      case tile::AnyType::e4m3:
        return tile::float_of_e4m3(static_cast<const std::uint8_t*>(tensor.data)[at]);
      case tile::AnyType::e5m2:
        return tile::float_of_e5m2(static_cast<const std::uint8_t*>(tensor.data)[at]);
      case tile::AnyType::f16:
        return tile::widen<float>(static_cast<const tile::Half*>(tensor.data)[at]);
      case tile::AnyType::bf16:
        return tile::widen<float>(static_cast<const tile::BFloat16*>(tensor.data)[at]);
      default:
        return static_cast<const float*>(tensor.data)[at];
    }
  }
  __device__ __forceinline__ void store(std::int64_t row_offset, int column, float value) const {
    const std::int64_t at = row_offset + column * tensor.strides[3];
    switch (type) {
      case tile::AnyType::e4m3:
        static_cast<std::uint8_t*>(tensor.data)[at] = tile::e4m3_of_float(value);
        break;
      case tile::AnyType::e5m2:
        static_cast<std::uint8_t*>(tensor.data)[at] = tile::e5m2_of_float(value);
        break;
      case tile::AnyType::f16:
        static_cast<tile::Half*>(tensor.data)[at] = tile::narrow<tile::Half>(value);
        break;
      case tile::AnyType::bf16:
        static_cast<tile::BFloat16*>(tensor.data)[at] = tile::narrow<tile::BFloat16>(value);
        break;
      default:
        static_cast<float*>(tensor.data)[at] = value;
        break;
    }
  }
};

// What p and dS are rounded to.
__device__ __forceinline__ float rounded_to(tile::AnyType type, float value) {
  if (type == tile::AnyType::e4m3) return tile::float_of_e4m3(tile::e4m3_of_float(value));
  if (type == tile::AnyType::e5m2) return tile::float_of_e5m2(tile::e5m2_of_float(value));
  return value;
}

// The greatest magnitude that a thread has met. Bits of numbers that are not negative are in the numbers' order, with
// NaN above all, so which thread comes first does not matter.
struct Greatest {
  std::uint32_t bits = 0;
  __device__ __forceinline__ void meet(float value) { bits = max(bits, __float_as_uint(value) & 0x7fffffffu); }
  // By whole warps.
  __device__ __forceinline__ void write(float* out) const {
    if (out == nullptr) return;
    std::uint32_t most = bits;
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, lane));
    if (threadIdx.x % 32 == 0 && most != 0) atomicMax(reinterpret_cast<unsigned int*>(out), most);
  }
};

// staged[d][row], as stage_rows.
__device__ __forceinline__ void stage_source(const Source& source, const RowList& rows, int column, int columns,
                                             float* staged) {
#pragma unroll
  for (int e = static_cast<int>(threadIdx.x); e < kTile * kDepth<float>; e += kThreads) {
    const int row = e / kDepth<float>;
    const int d = column + e % kDepth<float>;
    const std::int64_t offset = rows.offset[row];
    const bool inside = offset >= 0 && d < columns;
    staged[e % kDepth<float> * (kTile + 1) + row] = inside ? source.load(offset, d) : 0.0F;
  }
}

// sums[i][j] = sum over the columns of a's row 4 y + i times b's row x + 16 j.
__device__ __forceinline__ void multiply_sources(const Source& a, const RowList& a_rows, const Source& b,
                                                 const RowList& b_rows, int columns, float* staging,
                                                 float (&sums)[4][4]) {
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  float* const a_staged = staging;
  float* const b_staged = staging + kDepth<float> * (kTile + 1);
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i / 4][i % 4] = 0.0F;
  for (int column = 0; column < columns; column += kDepth<float>) {
    __syncthreads();
    stage_source(a, a_rows, column, columns, a_staged);
    stage_source(b, b_rows, column, columns, b_staged);
    __syncthreads();
#pragma unroll 4
    for (int d = 0; d < kDepth<float>; ++d) {
      float left[4];
      float right[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = a_staged[d * (kTile + 1) + 4 * y + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) right[j] = b_staged[d * (kTile + 1) + x + 16 * j];
#pragma unroll
      for (int i = 0; i < 16; ++i) sums[i / 4][i % 4] += left[i / 4] * right[i % 4];
    }
  }
}

// out[i][j] += sum over k of weights[4 y + i][k] times element (k, first_column + x + 16 j) of the listed rows. Begins
// and ends with the weights in use.
__device__ __forceinline__ void accumulate_source(const float (&weights)[kTile][kTile + 1], const Source& source,
                                                  const RowList& rows, int first_column, int columns, float* staging,
                                                  float (&out)[4][kOutSteps]) {
  constexpr int kRows = 2 * kDepth<float> * (kTile + 1) / kOutColumns;
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  const int present = columns - first_column < kOutColumns ? columns - first_column : kOutColumns;
  for (int first = 0; first < kTile; first += kRows) {
    __syncthreads();
#pragma unroll 1
    for (int e = static_cast<int>(threadIdx.x); e < kRows * kOutColumns; e += kThreads) {
      const int column = e % kOutColumns;
      const std::int64_t offset = first + e / kOutColumns < kTile ? rows.offset[first + e / kOutColumns] : -1;
      const bool inside = offset >= 0 && column < present;
      staging[e] = inside ? source.load(offset, first_column + column) : 0.0F;
    }
    __syncthreads();
    for (int k = 0; k < kRows && first + k < kTile; ++k) {
      float weight[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) weight[i] = weights[4 * y + i][first + k];
#pragma unroll
      for (int j = 0; j < kOutSteps; ++j) {
        if (16 * j >= present) break;
        const float value = staging[k * kOutColumns + x + 16 * j];
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i][j] += weight[i] * value;
      }
    }
  }
}

// What the kernels are told, without windows of rows.
struct Float8SimtParams : SimtParams {
  AttentionFloat8 numbers;
  tile::AnyType q_type, k_type, v_type, o_type, d_o_type, dq_type, dk_type, dv_type;
  tile::AnyType p_type, ds_type;
};
inline Float8SimtParams float8_simt_params(const AttentionFloat8Params& p) {
  Float8SimtParams result;
  static_cast<AttentionParams&>(result) = p;
  result.numbers = p.numbers;
  result.q_type = p.q_type, result.k_type = p.k_type, result.v_type = p.v_type, result.o_type = p.o_type;
  result.d_o_type = p.d_o_type, result.dq_type = p.dq_type, result.dk_type = p.dk_type, result.dv_type = p.dv_type;
  result.p_type = p.p_type, result.ds_type = p.ds_type;
  return result;
}

}  // namespace gpudnn::kernels::attention_simt
