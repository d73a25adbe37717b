// Instances and launch of the kernel that interprets pointwise programs of few inputs in registers. On sm_90 alone: it
// is a faster way of what program.cu does everywhere.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/pointwise/program_registers_sm90.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

template <int N, int P>
void launch_width(const VectorArgs& args, int multiprocessors, cudaStream_t stream) {
  static_assert(N * P <= kRegisterMaxElements, "the caller counts shared memory so");
  constexpr std::int64_t kTile = kProgramThreads * P;
  constexpr int kResident = 5;
  const std::int64_t tiles = (args.packs + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(tile::least(tiles, std::int64_t{multiprocessors} * kResident));
  const std::size_t shared = sizeof(float) * N * P * kProgramThreads * static_cast<std::size_t>(args.table.code.temps);
  cuda::launch_kernel(&program_registers<N, P>, {blocks, kProgramThreads, shared}, stream, args);
}

}  // namespace

void launch_registers(int width, const VectorArgs& args, int multiprocessors, CUstream_st* stream) {
  width == 8 ? launch_width<8, 2>(args, multiprocessors, stream) : launch_width<4, 2>(args, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
