// Copies of 16-bit operands whose rows begin at multiples of 16 bytes, as TMA wants them: plain data, shared by the
// launcher and the kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::matmul {

constexpr int kPadVector = 8;  // elements of 16 bytes

// A row is what lies side by side: along k, or along m or n. Strides in elements. The copy is [batch][row][vector];
// what lies behind the width in the last vector of a row is not read by anyone.
struct PadOperand {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t batch_stride[2] = {};
  std::uint32_t width = 1;
  std::uint32_t count = 0;  // vectors of the copy; 0: the operand is not copied
  tile::FastDivmod vectors;
  tile::FastDivmod rows;
  tile::FastDivmod inner_batches;
};

struct PadOperands {
  PadOperand of[2];
};

void launch_pad_operands(const PadOperands& operands, CUstream_st* stream);

}  // namespace gpudnn::kernels::matmul
