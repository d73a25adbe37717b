// What the kernel of a compiled pointwise program takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/compiled_programs.hpp"
#include "kernels/pointwise/vector_tensor.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels {

constexpr int kCompiledPack = 4;  // elements: 16 bytes of the widest type

struct CompiledArgs {
  std::uint32_t packs = 0;
  std::int32_t rank = 1;
  tile::FastDivmod dims[kProgramVectorLoops];  // fastest first, in packs
  VectorTensor in[compiled::kMaxInputs];       // a gathered one stays put along the fastest loop
  VectorTensor out[compiled::kMaxOutputs];     // staged
  float numbers[compiled::kMaxSteps][3] = {};  // the steps' parameters
};

void launch_compiled(int row, const CompiledArgs& args, CUstream_st* stream);

}  // namespace gpudnn::kernels
