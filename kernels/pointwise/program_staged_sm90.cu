// Instances and launch of the kernel that interprets pointwise programs with their operands in shared memory. On sm_90
// alone: it is a faster way of what program.cu does everywhere.
// SPDX-License-Identifier: Apache-2.0

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/pointwise/program_staged_sm90.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kSharedOfMultiprocessor = 227 * 1024;  // that its blocks may have together
constexpr int kSharedBesides = 1024 + 4 * 1024;      // of a block: the device's own, the table and positions

template <int N, int kBlocks, bool kAny, tile::AnyType kUsual>
void launch_width(const StagedArgs& args, int multiprocessors, cudaStream_t stream) {
  constexpr int P = kStagedPacks;
  constexpr std::int64_t kTile = kProgramThreads * P;
  const int shared = args.temp_bytes + args.stage_bytes;
  cuda::allow_shared_memory<&program_staged<N, P, kBlocks, kAny, kUsual>>(kMaxStagedBytes);
  const int resident = tile::clamp(kSharedOfMultiprocessor / (shared + kSharedBesides), 1, kBlocks);
  const std::int64_t tiles = (args.packs + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(tile::least(tiles, std::int64_t{multiprocessors} * resident));
  cuda::launch_kernel(&program_staged<N, P, kBlocks, kAny, kUsual>,
                      {blocks, kProgramThreads, static_cast<std::size_t>(shared)}, stream, args);
}

}  // namespace

void launch_staged(int width, bool any, StagedForm usual, const StagedArgs& args, int multiprocessors,
                   CUstream_st* stream) {
  using tile::AnyType;
  if (any) {
    return width == 8 ? launch_width<8, 4, true, AnyType::f32>(args, multiprocessors, stream)
                      : launch_width<4, 6, true, AnyType::f32>(args, multiprocessors, stream);
  }
  if (width == 4) return launch_width<4, 8, false, AnyType::f32>(args, multiprocessors, stream);
  if (usual == StagedForm::f16) return launch_width<8, 5, false, AnyType::f16>(args, multiprocessors, stream);
  launch_width<8, 5, false, AnyType::bf16>(args, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
