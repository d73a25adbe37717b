// What the launch of pointwise programs that end in reductions takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/program.hpp"

namespace gpudnn::kernels {

constexpr int kNotFolded = -1;

// The reductions of one call fold the same dimensions. `params.dims` hold the kept loops, `kept` of them, before the
// folded ones, each group from the slowest to the fastest.
struct ProgramReduceParams {
  ProgramParams program;
  int kept = 0;
  int fold[tile::kProgramOutputs] = {kNotFolded, kNotFolded, kNotFolded, kNotFolded};  // gpudnnReduceTensorOp_t
  bool across = false;  // neighbouring elements in memory belong to different results
  int splits = 1;       // of the folded elements; more than 1 only with a workspace
  void* workspace = nullptr;
};

// Threads of a block side by side over results, and the splits that fill the device.
struct ReduceTiling {
  int lanes = 1;
  int splits = 1;
};
constexpr int kProgramReduceThreads = 256;
constexpr int kProgramReduceElements = 8;

[[nodiscard]] inline ReduceTiling reduce_tiling(std::int64_t results, std::int64_t folded, bool across,
                                                int multiprocessors) {
  ReduceTiling tiling;
  const int widest = across ? 32 : folded >= 512 ? 1 : folded >= 64 ? 8 : 32;
  while (tiling.lanes < widest && tiling.lanes < results) tiling.lanes *= 2;
  const std::int64_t tiles = (results + tiling.lanes - 1) / tiling.lanes;
  const std::int64_t rows = kProgramReduceThreads / tiling.lanes;
  const std::int64_t wanted = std::int64_t{8} * multiprocessors / tiles;
  const std::int64_t most = folded / (rows * kProgramReduceElements * 2);
  const std::int64_t splits = wanted < most ? wanted : most;
  tiling.splits = splits < 1 ? 1 : splits > 512 ? 512 : static_cast<int>(splits);
  return tiling;
}

// Bytes of the partial results.
[[nodiscard]] inline std::size_t reduce_workspace(std::int64_t results, int splits, int folds, bool is_double) {
  return splits == 1 ? 0
                     : static_cast<std::size_t>(results) * static_cast<std::size_t>(splits) *
                           static_cast<std::size_t>(folds) * (is_double ? 8 : 4);
}

void launch_program_reduce(const ProgramReduceParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
