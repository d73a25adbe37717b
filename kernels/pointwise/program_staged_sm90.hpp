// What the launch of pointwise programs whose operands lie in shared memory takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/staged_steps.hpp"
#include "kernels/pointwise/vector_tensor.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels {

// What is looked up by a number known at run time.
struct StagedTable {
  VectorTensor in[tile::kProgramInputs];    // `step`: bytes from the beginning of a stage
  VectorTensor out[tile::kProgramOutputs];  // in packs
  StagedCode code;
};

struct StagedArgs {
  std::uint32_t packs = 0;
  std::int32_t rank = 1;
  std::int32_t inputs = 0;
  std::int32_t stage_bytes = 0;
  std::int32_t temp_bytes = 0;                 // of all temporaries of a block: the stages lie behind them
  bool whole_tiles = false;                    // all packs of a tile lie in one row
  std::uint32_t zero = 0;                      // that the compiler does not know
  tile::FastDivmod dims[kProgramVectorLoops];  // fastest first, in packs
  StagedTable table;
};
static_assert(sizeof(StagedArgs) <= 4000, "kernel parameters");

constexpr int kMaxStagedBytes = 112 * 1024;  // of a block: two of them a multiprocessor

constexpr int kStagedPacks = 4;  // that a thread works on at once
// Of packs of `width` elements: 4 or 8.
void launch_staged(int width, bool any, StagedForm usual, const StagedArgs& args, int multiprocessors,
                   CUstream_st* stream);

}  // namespace gpudnn::kernels
