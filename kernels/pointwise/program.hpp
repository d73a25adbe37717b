// What the launch of pointwise programs takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/loop_nest.hpp"
#include "kernels/tile/program.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// An input or output: elements in memory, or the index along an axis, whose strides are then the steps of the number.
struct ProgramTensor {
  tile::AnyType type = tile::AnyType::f32;
  bool is_index = false;
  bool present = false;  // a scalar is no tensor: it is in the code
  void* data = nullptr;
  std::int64_t start = 0;                      // of an index: the first number
  std::int64_t strides[tile::kMaxLoops] = {};  // in elements; dimensions from the slowest to the fastest
};

// The loops are merged, in the order of the first output's memory.
struct ProgramParams {
  bool is_double = false;  // computes in double; else in float
  const tile::ProgramCode<float>* code = nullptr;
  const tile::ProgramCode<double>* code64 = nullptr;
  int rank = 0;
  std::int64_t dims[tile::kMaxLoops] = {};
  int inputs = 0;
  int outputs = 0;
  ProgramTensor in[tile::kProgramInputs];
  ProgramTensor out[tile::kProgramOutputs];
  int multiprocessors = 1;
  bool runs_compiled = false;  // the device runs the code of sm_90a: a compiled program may be taken
};

void launch_program(const ProgramParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
