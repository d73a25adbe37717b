// Instances and launch of the backward pass of layer normalization through a ring of rows.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/cached_query.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/layer_norm/ring_backward_sm90.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

cuda::LaunchConfig config_of(const LayerNormRing& ring, std::int64_t clusters, int bytes) {
  return cuda::clusters_of(clusters, ring.cluster, ring.threads + 32, bytes);
}

// How many clusters of such blocks the device runs side by side: fewer than the multiprocessors have room for, as the
// groups that clusters stay in are not all alike. Asked of the largest blocks of which as many go together. 0: no
// answer.
template <class T, int kPacks>
int resident(const LayerNormRing& ring) {
  static int known[4][kLnRingResident / 64 + 1][cuda::kDevicesKnown] = {};
  const int size = ring.cluster == 1 ? 0 : ring.cluster == 2 ? 1 : ring.cluster == 4 ? 2 : 3;
  return cuda::cached_query(known[size][ring.together], [&] {
    LayerNormRing largest = ring;
    largest.threads = tile::least(kLnRingResident / ring.together / 32 * 32 - 32, kLnRingMaxThreads);
    int clusters = 0;
    const auto config = config_of(largest, 1, kLnRingBytes / ring.together - 1024);
    const auto* const kernel = reinterpret_cast<const void*>(layer_norm_ring_backward<T, kPacks>);
    return cuda::max_resident_clusters(kernel, config, &clusters) == cudaSuccess ? clusters : 0;
  });
}

template <class T, int kPacks>
int launch(const LayerNormRing& ring, LayerNormBackwardArgs args, const tile::LoopNest<6>& rows, cudaStream_t stream) {
  cuda::allow_shared_memory<layer_norm_ring_backward<T, kPacks>>(kLnRingBytes, true);
  const std::int64_t samples = rows.count / args.of_sample;
  std::int64_t clusters = ring.clusters;
  if (samples == 1 && ring.cluster > 2) {
    const int fitting = resident<T, kPacks>(ring);
    if (fitting > 0 && fitting < clusters) clusters = layer_norm_ring_clusters(rows.count, fitting);
  }
  args.parts = static_cast<std::uint32_t>(clusters);
  const int bytes = kLnRingStagesAt + ring.stages * ring.block_packs * 32;
  cuda::launch_kernel(layer_norm_ring_backward<T, kPacks>, config_of(ring, samples * clusters, bytes), stream, args,
                      rows, ring);
  return static_cast<int>(clusters);
}

}  // namespace

int launch_layer_norm_ring_backward(const LayerNormRing& ring, tile::AnyType type, LayerNormBackwardArgs args,
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
