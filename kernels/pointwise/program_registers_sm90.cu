// Instances and launch of the kernel that interprets pointwise programs of few values in registers. On sm_90 alone: it
// is a faster way of what program.cu does everywhere.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

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
  static const int variant = std::getenv("EXP") ? std::atoi(std::getenv("EXP")) : 0;
#define V(n, a, b)                                                                                                \
  if (variant == n) {                                                                                             \
    width == 8 ? launch_width<a>(args, multiprocessors, stream) : launch_width<b>(args, multiprocessors, stream); \
    return;                                                                                                       \
  }
#define T(...) __VA_ARGS__
  if (args.code.any) {
    V(0, T(8, 2, 4, true), T(4, 2, 5, true))
    V(1, T(8, 1, 6, true), T(4, 2, 5, true))
  } else {
    V(0, T(8, 2, 4, false), T(4, 2, 7, false))
    V(1, T(8, 1, 7, false), T(4, 4, 4, false))
    V(2, T(8, 2, 5, false), T(4, 4, 5, false))
    V(3, T(8, 2, 4, false), T(4, 3, 5, false))
  }
}

}  // namespace gpudnn::kernels
