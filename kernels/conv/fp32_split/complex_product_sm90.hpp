// Batches of complex matrix products in float on bfloat16 tensor cores: plain data, shared by launcher and kernel.
//
//   C[b][m][n] = sum over k of A[b][m][k] * B[b][k][n]
//
// Rows of A and of C are floats: of each 16 numbers the real parts, then the imaginary ones. B lies as terms
// (split_filter_sm90.hpp): a row is an n, a chunk 16 numbers of k, of which the 64 bytes have the real parts and then
// the imaginary ones, both in the order of the fragments of A.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"

namespace gpudnn::kernels::fp32_split {

// Numbers of a block of a row, and of a k tile.
constexpr int kComplexBlock = 16;
// Columns are floats of C: half as many numbers.
constexpr sm90::TileShape kComplexShape = {128, 128, false, 2, 6, 128, 0.75};
constexpr int kComplexRowsOfB = kComplexShape.bn / 2;

// The first of the two numbers in word i, of 8, of either half of a row of terms: a thread t of four loads 4 numbers of
// A, 4t to 4t + 3, and gives them to positions 2t, 2t + 1 and 2t + 8, 2t + 9 of the product.
constexpr int complex_number_at(int word) { return word % 4 * 4 + word / 4 * 2; }
constexpr int complex_word_of(int number) { return number / 4 + number % 4 / 2 * 4; }

// `params.gemm` counts floats of A's and of C's rows.
void launch_complex(const Params& params, std::uint32_t blocks, CUstream_st* stream);

}  // namespace gpudnn::kernels::fp32_split
