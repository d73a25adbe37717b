// A kernel that is nothing but an epilogue: each thread takes 8 neighbours of a row as its accumulators and writes what
// the program leaves.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/epilogue_only.hpp"
#include "kernels/tile/program_epilogue.cuh"

namespace gpudnn::test {
namespace {

constexpr unsigned kThreads = 64;

__global__ void __launch_bounds__(kThreads) epilogue_only(const __grid_constant__ EpilogueOnly args) {
  const unsigned column = (blockIdx.x * kThreads + threadIdx.x) * 8;
  if (column >= args.columns) return;
  const int valid = static_cast<int>(min(8u, args.columns - column));
  const std::int64_t first = (std::int64_t{blockIdx.z} * args.rows + blockIdx.y) * args.columns + column;
  float acc[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) acc[i] = i < valid ? args.accumulators[first + i] : 0.0f;
  tile::run_epilogue(args.program, acc, blockIdx.z, blockIdx.y, column, valid);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < valid) args.out[first + i] = acc[i];
  }
}

}  // namespace

void launch_epilogue_only(const EpilogueOnly& args, CUstream_st* stream) {
  const dim3 blocks((args.columns + 8 * kThreads - 1) / (8 * kThreads), args.rows, args.batches);
  cuda::launch_kernel(&epilogue_only, {blocks, kThreads}, stream, args);
}

}  // namespace gpudnn::test
