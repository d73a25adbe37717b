// Instances and launch of compiled pointwise programs.
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

template <int... kNumbers>
Row row_of(int instance, std::integer_sequence<int, kNumbers...>) {
  constexpr Row kAll[] = {
      {&compiled::program_compiled_sm90<kNumbers>, compiled::packs_of(compiled::kInstances.all[kNumbers])}...};
  return kAll[instance];
}

}  // namespace

void launch_compiled(int instance, const CompiledArgs& args, CUstream_st* stream) {
  const Row its = row_of(instance, std::make_integer_sequence<int, compiled::kInstanceCount>());
  const auto tile = static_cast<unsigned>(kProgramThreads * its.packs);
  const dim3 blocks((args.packs + tile - 1) / tile);
  cuda::launch_kernel(its.kernel, {.blocks = blocks, .threads = dim3(kProgramThreads)}, stream, args);
}

}  // namespace gpudnn::kernels
