// Instances and launch of compiled pointwise programs: one for each row.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/pointwise/program_compiled_sm90.cuh"

namespace gpudnn::kernels {
namespace {

using Kernel = void (*)(CompiledArgs);

template <int... kRows>
Kernel kernel_of(int row, std::integer_sequence<int, kRows...>) {
  constexpr Kernel kKernels[] = {&compiled::program_compiled_sm90<kRows>...};
  return kKernels[row];
}

}  // namespace

void launch_compiled(int row, const CompiledArgs& args, CUstream_st* stream) {
  constexpr std::uint32_t kTile = kProgramThreads * kCompiledPacks;
  const dim3 blocks((args.packs + kTile - 1) / kTile);
  cuda::launch_kernel(kernel_of(row, std::make_integer_sequence<int, compiled::kProgramCount>()),
                      {.blocks = blocks, .threads = dim3(kProgramThreads)}, stream, args);
}

}  // namespace gpudnn::kernels
