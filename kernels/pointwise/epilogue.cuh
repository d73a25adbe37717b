// A program as the epilogue of a kernel that does nothing else: each thread takes 8 neighbours of a row-major f32
// matrix as its accumulators and writes what the program leaves. The test of kernels/tile/program_epilogue.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/tile/program_epilogue.cuh"

namespace gpudnn::kernels {

struct EpilogueOnly {
  const float* accumulators;
  float* out;
  std::int64_t rows;
  std::int64_t columns;
  tile::EpilogueProgram program;
};

__global__ void __launch_bounds__(128) epilogue_only(const __grid_constant__ EpilogueOnly args) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 8;
  const std::int64_t row = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  if (column >= args.columns) return;
  const int valid = args.columns - column < 8 ? static_cast<int>(args.columns - column) : 8;
  const std::int64_t first = (batch * args.rows + row) * args.columns + column;
  float acc[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) acc[i] = i < valid ? args.accumulators[first + i] : 0.0f;
  tile::run_epilogue(args.program, acc, batch, row, column, valid);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < valid) args.out[first + i] = acc[i];
  }
}

}  // namespace gpudnn::kernels
