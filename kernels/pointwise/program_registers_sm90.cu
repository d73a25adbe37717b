// Instances and launch of the kernel that interprets pointwise programs of few values in registers. On sm_90 alone: it
// is a faster way of what program.cu does everywhere.
// SPDX-License-Identifier: Apache-2.0

#include "core/launch/launch.hpp"
#include "kernels/pointwise/program_registers_sm90.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

template <int N, int P, int kBlocks, bool kAny>
void launch_width(const RegisterArgs& args, int multiprocessors, cudaStream_t stream) {
  constexpr std::int64_t kTile = kProgramThreads * P;
  const std::int64_t tiles = (args.packs + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(tile::least(tiles, std::int64_t{multiprocessors} * kBlocks));
  cuda::launch_kernel(&program_registers<N, P, kBlocks, kAny>, {.blocks = blocks, .threads = dim3(kProgramThreads)},
                      stream, args);
}

}  // namespace

void launch_registers(int width, const RegisterArgs& args, int multiprocessors, CUstream_st* stream) {
  if (width == 8) return launch_width<8, 3, 3, false>(args, multiprocessors, stream);
  if (!args.code.any) return launch_width<4, 4, 4, false>(args, multiprocessors, stream);
  launch_width<4, 2, 6, true>(args, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
