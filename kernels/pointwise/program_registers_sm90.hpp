// What the launch of pointwise programs with inputs and temporaries in registers takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/register_steps.hpp"
#include "kernels/pointwise/vector_tensor.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels {

struct RegisterArgs {
  std::uint32_t packs = 0;
  std::int32_t rank = 1;
  std::uint32_t zero = 0;                      // that the compiler does not know
  tile::FastDivmod dims[kProgramVectorLoops];  // fastest first, in packs
  VectorTensor in[kRegisterSlots];             // in packs of 16 bytes and less, or the same for a whole pack
  VectorTensor out[tile::kProgramOutputs];     // in packs
  RegisterCode code;
};

// `width`: elements of a pack; 4, or 8 where no step is OneStep::any.
void launch_registers(int width, const RegisterArgs& args, int multiprocessors, CUstream_st* stream);

}  // namespace gpudnn::kernels
