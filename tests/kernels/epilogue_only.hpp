// A kernel that is nothing but an epilogue: the test of kernels/tile/program_epilogue.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/program_epilogue.hpp"

struct CUstream_st;

namespace gpudnn::test {

struct EpilogueOnly {
  const float* accumulators = nullptr;  // row-major, batches x rows x columns
  float* out = nullptr;                 // likewise
  unsigned batches = 1;
  unsigned rows = 1;
  unsigned columns = 1;
  tile::EpilogueProgram program;
};
void launch_epilogue_only(const EpilogueOnly& args, CUstream_st* stream);

}  // namespace gpudnn::test
