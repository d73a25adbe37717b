// Instances and launch of the backward pass of layer normalization through a ring of rows.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/layer_norm/ring_backward_sm90.cuh"

namespace gpudnn::kernels {
namespace {

template <class T, int kPacks>
void launch(const LayerNormRing& ring, const LayerNormBackwardArgs& args, const tile::LoopNest<6>& rows,
            cudaStream_t stream) {
  cuda::allow_shared_memory<layer_norm_ring_backward<T, kPacks>>(kLnRingBytes, true);
  const int bytes = kLnRingStagesAt + ring.stages * ring.block_packs * 32;
  cuda::launch_kernel(
      layer_norm_ring_backward<T, kPacks>,
      cuda::clusters_of(rows.count / args.of_sample * ring.clusters, ring.cluster, ring.threads + 32, bytes), stream,
      args, rows, ring);
}

}  // namespace

void launch_layer_norm_ring_backward(const LayerNormRing& ring, tile::AnyType type, const LayerNormBackwardArgs& args,
                                     const tile::LoopNest<6>& rows, CUstream_st* stream) {
  switch (type) {
    case tile::AnyType::f16:
      return launch<tile::Half, 2>(ring, args, rows, stream);
    case tile::AnyType::bf16:
      return launch<tile::BFloat16, 2>(ring, args, rows, stream);
    default:
      return launch<float, 4>(ring, args, rows, stream);
  }
}

}  // namespace gpudnn::kernels
