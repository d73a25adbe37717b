// Batches of complex matrix products in float on bfloat16 tensor cores: plain data, shared by launcher and kernel.
//
//   C[b][m][n] = sum over k of A[b][m][k] * B[b][k][n]
//
// Rows of A and of C are complex numbers, real part first. B lies as terms (split_filter_sm90.hpp): a row is an n, a
// chunk 16 numbers of k, of which the 64 bytes have the real parts and then the imaginary ones, both in the order of
// the fragments of A. Of each 8 rows the order is that of complex_row_of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"

namespace gpudnn::kernels::fp32_split {

// Numbers of a k tile.
constexpr int kComplexBlock = 16;
// Columns are floats of C: half as many numbers.
constexpr sm90::TileShape kComplexShape = {128, 128, false, 2, 6, 128, 0.75};
constexpr int kComplexRowsOfB = kComplexShape.bn / 2;

// The first of the two numbers in word i, of 8, of either half of a row of terms: a thread t of four loads 4 numbers of
// A, 4t to 4t + 3, and gives them to positions 2t, 2t + 1 and 2t + 8, 2t + 9 of the product.
constexpr int complex_number_at(int word) { return word % 4 * 4 + word / 4 * 2; }
// The row of B that has column n: a thread t of four has sums of rows 2t and 2t + 1, which so are numbers t and t + 4
// of 8, of which it writes both parts where the epilogue of floats has two neighbouring columns.
constexpr int complex_row_of(int n) { return n / 8 * 8 + n % 4 * 2 + n % 8 / 4; }

struct ComplexParams {
  Params product;                   // `product.gemm` counts floats of A's and of C's rows
  std::uint32_t rows_of_batch = 0;  // of A and of C, that exist; those behind them, up to whole tiles, are not written
};

void launch_complex(const ComplexParams& params, std::uint32_t blocks, CUstream_st* stream);

}  // namespace gpudnn::kernels::fp32_split
