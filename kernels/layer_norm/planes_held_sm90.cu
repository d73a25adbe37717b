// Instances and launch of the backward pass of group and instance normalization over planes held in shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/layer_norm/planes_held.hpp"
#include "kernels/layer_norm/planes_held_sm90.cuh"

namespace gpudnn::kernels {
namespace {

// Of a block, at most: two of them share a multiprocessor.
constexpr int kMaxBytes = 110 * 1024;
// With so few, four or five do.
constexpr int kEnoughBytes = 55 * 1024;

int bytes_of(int pieces, int piece_packs) { return kLnHeldHeader + pieces * piece_packs * 32; }

template <class T>
void launch(const LayerNormHeld& held, const LayerNormPlaneArgs& args, const tile::LoopNest<6>& sets,
            cudaStream_t stream) {
  cuda::allow_shared_memory<layer_norm_planes_held<T>>(kMaxBytes, true);
  const LayerNormHeldShape shape = {held.cluster, held.pieces};
  // As many warps as all have work in each of their turns.
  constexpr int kMaxWarps = kLnPlaneThreads / 32;
  const int turns = (held.pieces + kMaxWarps - 1) / kMaxWarps;
  const int warps = (held.pieces + turns - 1) / turns;
  cuda::launch_kernel(layer_norm_planes_held<T>,
                      cuda::clusters_of(sets.count, held.cluster, warps * 32, bytes_of(held.pieces, args.part_packs)),
                      stream, args, sets, shape);
}

}  // namespace

LayerNormHeld layer_norm_held(std::int64_t pieces, int piece_packs) {
  LayerNormHeld held;
  for (int cluster = 1; cluster <= kLnMaxCluster; cluster *= 2) {
    const std::int64_t of_block = (pieces + cluster - 1) / cluster;
    if (of_block > kLnHeldPieces || bytes_of(static_cast<int>(of_block), piece_packs) > kMaxBytes) continue;
    held = {cluster, static_cast<int>(of_block)};
    if (bytes_of(held.pieces, piece_packs) <= kEnoughBytes) break;
  }
  return held;
}

void launch_layer_norm_planes_held(const LayerNormHeld& held, tile::AnyType type, const LayerNormPlaneArgs& args,
                                   const tile::LoopNest<6>& sets, CUstream_st* stream) {
  switch (type) {
    case tile::AnyType::f16:
      return launch<tile::Half>(held, args, sets, stream);
    case tile::AnyType::bf16:
      return launch<tile::BFloat16>(held, args, sets, stream);
    default:
      return launch<float>(held, args, sets, stream);
  }
}

}  // namespace gpudnn::kernels
