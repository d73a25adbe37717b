// Instances and launch of compiled pointwise programs: one for each row.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/pointwise/program_compiled_sm90.cuh"

namespace gpudnn::kernels {
namespace {

using Kernel = void (*)(CompiledArgs);

struct Row {
  Kernel kernel;
  int packs;
};

template <int... kRows>
Row row_of(int row, std::integer_sequence<int, kRows...>) {
  constexpr Row kAll[] = {{&compiled::program_compiled_sm90<kRows>, compiled::packs_of(compiled::kPrograms[kRows])}...};
  return kAll[row];
}

}  // namespace

void launch_compiled(int row, const CompiledArgs& args, CUstream_st* stream) {
  const Row its = row_of(row, std::make_integer_sequence<int, compiled::kProgramCount>());
  const auto tile = static_cast<unsigned>(kProgramThreads * its.packs);
  const dim3 blocks((args.packs + tile - 1) / tile);
  cuda::launch_kernel(its.kernel, {.blocks = blocks, .threads = dim3(kProgramThreads)}, stream, args);
}

}  // namespace gpudnn::kernels
