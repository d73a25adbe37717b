// What the kernel of a compiled pointwise program takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/compiled_programs.hpp"
#include "kernels/pointwise/vector_tensor.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels {

struct CompiledArgs {
  std::uint32_t packs = 0;
  std::int32_t rank = 1;
  tile::FastDivmod dims[kProgramVectorLoops];  // fastest first, in packs; of an odd instance in elements
  // A gathered one stays put in a pack; of an odd instance it is read element by element, and the others lie in the
  // order of the loops without a gap.
  VectorTensor in[compiled::kMaxInputs];
  VectorTensor out[compiled::kMaxOutputs];     // staged
  float numbers[compiled::kMaxSteps][3] = {};  // the steps' parameters
};

void launch_compiled(int instance, const CompiledArgs& args, CUstream_st* stream);

}  // namespace gpudnn::kernels
