// The operands of a product of floats as bfloat16 matrices of six times the depth: plain data, shared by the launcher
// and the kernel.
//
// With a = a0 + a1 + a2 and b = b0 + b1 + b2 (kernels/conv/fp32_split/bf16_terms.cuh) the six products of terms that
// make a product of floats are laid along k, small ones first:
//
//   A'   a0 a1 a2 a0 a1 a0
//   B'   b2 b1 b0 b1 b0 b0
//
// so that A' B' by any kernel for bfloat16 is A B. All but the last segments hold a finite number where a factor is not
// finite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::matmul {

constexpr int kSegments = 6;
constexpr int kSplitRows = 32;   // of a block's tile
constexpr int kSplitDepth = 64;  // elements of k

// Strides in elements. The result is [batch][row][segment][padded_depth].
struct SplitOperand {
  const float* from = nullptr;
  void* to = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t depth_stride = 1;
  std::int64_t batch_stride[2] = {};
  std::uint32_t rows = 1;
  std::uint32_t depth = 1;
  std::uint32_t padded_depth = 8;  // a multiple of 8, zeros from `depth` on
  tile::FastDivmod inner_batches;
  tile::FastDivmod row_tiles;
  tile::FastDivmod depth_tiles;
  std::uint32_t blocks = 0;
};

struct SplitOperands {
  SplitOperand of[2];  // A, B
};

void launch_split_operands(const SplitOperands& operands, CUstream_st* stream);

}  // namespace gpudnn::kernels::matmul
