// The matrices of minimal filtering, and their application to a tile in registers.
//
// For points a_0 ... a_{n-2} and infinity, n = m + r - 1: A^T holds the powers of the points, G the same divided by
// N_i = prod over j != i of (a_i - a_j), B^T the coefficients of prod over j != i of (x - a_j). F(2x2, 3x3) has the
// points 0, 1, -1. F(4x4, 3x3) has 0, +-5/8, +-3/2: B and A stay exact in float, and rounding errors grow by 4.8 in
// two dimensions, where the usual 0, +-1, +-2 let them grow by 10.8 (docs/numerics.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::kernels::winograd {

// --- B^T: of an input tile.
template <int kM>
struct InputMatrix;
template <>
struct InputMatrix<2> {
  static constexpr int kRows = 4, kColumns = 4;
  static __device__ __forceinline__ float at(int i, int j) {
    constexpr float kValues[4][4] = {{-1, 0, 1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}};
    return kValues[i][j];
  }
};
template <>
struct InputMatrix<4> {
  static constexpr int kRows = 6, kColumns = 6;
  static __device__ __forceinline__ float at(int i, int j) {
    constexpr float kValues[6][6] = {
        {225.0f / 256, 0, -169.0f / 64, 0, 1, 0},   {0, -45.0f / 32, -9.0f / 4, 0.625f, 1, 0},
        {0, 45.0f / 32, -9.0f / 4, -0.625f, 1, 0},  {0, -75.0f / 128, -25.0f / 64, 1.5f, 1, 0},
        {0, 75.0f / 128, -25.0f / 64, -1.5f, 1, 0}, {0, 225.0f / 256, 0, -169.0f / 64, 0, 1}};
    return kValues[i][j];
  }
};

// --- G: of a filter of kR taps a side, for tiles of kM outputs. With kR = 3 a filter, with kR = m a tile of dy.
template <int kPoints, int kR>
struct FilterMatrix;
template <int kR>
struct FilterMatrix<4, kR> {
  static constexpr int kRows = 4, kColumns = kR;
  static __device__ __forceinline__ float at(int i, int j) {
    if (i == 3) return j == kR - 1 ? 1.0f : 0.0f;
    if (i == 0) return j == 0 ? -1.0f : 0.0f;
    return i == 2 && j % 2 == 1 ? -0.5f : 0.5f;
  }
};
template <int kR>
struct FilterMatrix<6, kR> {
  static constexpr int kRows = 6, kColumns = kR;
  static __device__ __forceinline__ float at(int i, int j) {
    // 1 / N_i is 256/225 at 0, -0.688... = -8192/11900 at +-5/8, and 0.1195... = 128/1071 at +-3/2.
    constexpr float kAtFiveEighths[4] = {static_cast<float>(-8192.0 / 11900), static_cast<float>(-5120.0 / 11900),
                                         static_cast<float>(-3200.0 / 11900), static_cast<float>(-2000.0 / 11900)};
    constexpr float kAtThreeHalves[4] = {static_cast<float>(128.0 / 1071), static_cast<float>(192.0 / 1071),
                                         static_cast<float>(288.0 / 1071), static_cast<float>(432.0 / 1071)};
    if (i == 5) return j == kR - 1 ? 1.0f : 0.0f;
    if (i == 0) return j == 0 ? static_cast<float>(256.0 / 225) : 0.0f;
    const float value = i <= 2 ? kAtFiveEighths[j] : kAtThreeHalves[j];
    return i % 2 == 0 && j % 2 == 1 ? -value : value;
  }
};

// --- A^T: of the kPoints products, to kOutputs.
template <int kPoints, int kOutputs>
struct OutputMatrix;
template <int kOutputs>
struct OutputMatrix<4, kOutputs> {
  static constexpr int kRows = kOutputs, kColumns = 4;
  static __device__ __forceinline__ float at(int i, int j) {
    if (j == 3) return i == kOutputs - 1 ? 1.0f : 0.0f;
    if (j == 0) return i == 0 ? 1.0f : 0.0f;
    return j == 2 && i % 2 == 1 ? -1.0f : 1.0f;
  }
};
template <int kOutputs>
struct OutputMatrix<6, kOutputs> {
  static constexpr int kRows = kOutputs, kColumns = 6;
  static __device__ __forceinline__ float at(int i, int j) {
    constexpr float kFiveEighths[4] = {1, 0.625f, 0.390625f, 0.244140625f};
    constexpr float kThreeHalves[4] = {1, 1.5f, 2.25f, 3.375f};
    if (j == 5) return i == kOutputs - 1 ? 1.0f : 0.0f;
    if (j == 0) return i == 0 ? 1.0f : 0.0f;
    const float value = j <= 2 ? kFiveEighths[i] : kThreeHalves[i];
    return j % 2 == 0 && i % 2 == 1 ? -value : value;
  }
};

// out += coefficient * in, of constants that the compiler knows.
__device__ __forceinline__ void add_term(float coefficient, float in, bool* is_first, float* out) {
  if (coefficient == 0.0f) return;
  const float term = coefficient == 1.0f ? in : coefficient == -1.0f ? -in : coefficient * in;
  if (*is_first) {
    *out = term;
  } else if (coefficient == 1.0f || coefficient == -1.0f) {
    *out += term;
  } else {
    *out = fmaf(coefficient, in, *out);
  }
  *is_first = false;
}

// out = M in M^T.
template <class M>
__device__ __forceinline__ void apply_on_both_sides(const float (&in)[M::kColumns][M::kColumns],
                                                    float (&out)[M::kRows][M::kRows]) {
  float half[M::kRows][M::kColumns];
#pragma unroll
  for (int i = 0; i < M::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < M::kColumns; ++j) {
      bool is_first = true;
#pragma unroll
      for (int k = 0; k < M::kColumns; ++k) add_term(M::at(i, k), in[k][j], &is_first, &half[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < M::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < M::kRows; ++j) {
      bool is_first = true;
#pragma unroll
      for (int k = 0; k < M::kColumns; ++k) add_term(M::at(j, k), half[i][k], &is_first, &out[i][j]);
    }
  }
}

}  // namespace gpudnn::kernels::winograd
