// What a kernel's parameters hold of a program that is its epilogue (program_epilogue.cuh). Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/program.hpp"

namespace gpudnn::tile {

constexpr int kEpilogueTemps = 4;

// Strides in elements; 0 where the tensor is repeated. Of an index: what a step along each adds to the number.
struct EpilogueTensor {
  void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  AnyType type = AnyType::f32;
  bool is_index = false;
};

struct EpilogueProgram {
  EpilogueTensor in[kProgramInputs];    // by load; that of the accumulators is unused
  EpilogueTensor out[kProgramOutputs];  // by store; 0 is the kernel's own
  ProgramCode<float> code;
};
static_assert(sizeof(EpilogueProgram) <= 2560, "it shares the kernel's 4 KB of parameters");

}  // namespace gpudnn::tile
