// Instances and launch of the backward pass of layer normalization through rings of warps.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/layer_norm/ring.hpp"
#include "kernels/layer_norm/warp_ring_backward_sm90.cuh"

namespace gpudnn::kernels {
namespace {

template <class T, int kPacks>
void launch(const LayerNormBackwardArgs& args, const tile::LoopNest<kLnSlots>& rows, cudaStream_t stream) {
  constexpr int kMost = layer_norm_warp_ring_bytes(kPacks, kPacks * 32);
  cuda::allow_shared_memory<layer_norm_warp_ring_backward<T, kPacks>>(kMost, true);
  const int packs = static_cast<int>(args.length) / tile::kPackWidth<T>;
  cuda::launch_kernel(layer_norm_warp_ring_backward<T, kPacks>,
                      cuda::clusters_of(rows.count / args.of_sample * args.parts, 1, kLnWarpThreads,
                                        layer_norm_warp_ring_bytes(kPacks, packs)),
                      stream, args, rows);
}

template <class T>
void launch_typed(const LayerNormBackwardArgs& args, const tile::LoopNest<kLnSlots>& rows, cudaStream_t stream) {
  if (args.length <= 2 * 32 * tile::kPackWidth<T>) return launch<T, 2>(args, rows, stream);
  launch<T, 3>(args, rows, stream);
}

}  // namespace

void launch_layer_norm_warp_ring_backward(tile::AnyType type, const LayerNormBackwardArgs& args,
                                          const tile::LoopNest<kLnSlots>& rows, CUstream_st* stream) {
  if (type == tile::AnyType::f16) return launch_typed<tile::Half>(args, rows, stream);
  launch_typed<tile::BFloat16>(args, rows, stream);
}

}  // namespace gpudnn::kernels
