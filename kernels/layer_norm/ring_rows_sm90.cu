// Instances and launch of layer normalization over long rows of halves through a ring.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/cached_query.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/layer_norm/resident_launch.cuh"
#include "kernels/layer_norm/ring.hpp"
#include "kernels/layer_norm/ring_rows_sm90.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

// Packs of a row, at least, with floats for each column. Shorter rows, and those whose parameters are halves, have
// groups (row_groups_sm90.cu), which read the parameters once for two rows.
constexpr std::int64_t kLeast = 2048;

struct Cut {
  int cluster = 0;
  int together = 0;  // blocks of a multiprocessor
  int threads = 0;
  int stages = 0;
  int block_packs = 0;
  [[nodiscard]] int bytes() const { return kLnRingRowsStagesAt + stages * block_packs * 16; }
};

// The more of a row a multiprocessor's threads have at a time, the better: of larger clusters more blocks fit.
Cut cut_of(std::int64_t packs) {
  Cut cut;
  for (int cluster = 1; cluster <= kLnMaxCluster; cluster *= 2) {
    Cut trial;
    trial.cluster = cluster;
    trial.block_packs = static_cast<int>((packs + cluster - 1) / cluster);
    trial.threads = ((trial.block_packs + kLnRingRowsPacks - 1) / kLnRingRowsPacks + 31) / 32 * 32;
    if (trial.threads > kLnRingRowsThreads || trial.threads < kLnRingMinThreads) continue;
    trial.together = kLnRingRowsThreads / trial.threads;
    constexpr int kReserved = 1024;  // of a block's shared memory
    const int room = kLnRingBytes / trial.together - kReserved - kLnRingRowsStagesAt;
    trial.stages = tile::least(room / (trial.block_packs * 16), kLnRingRowsMaxStages);
    if (trial.stages < 3) continue;
    const int at_work = trial.together * trial.block_packs;
    if (cut.cluster == 0 || at_work * 4 > cut.together * cut.block_packs * 5) cut = trial;
  }
  return cut;
}

// How many clusters of such blocks the device runs side by side (ring_backward_sm90.cu). Asked of the largest blocks of
// which as many go together. 0: no answer.
template <class T>
int resident(const Cut& cut) {
  constexpr int kMost = kLnRingRowsThreads;
  static int known[4][kMost / kLnRingMinThreads + 1][cuda::kDevicesKnown] = {};
  const int size = cut.cluster == 1 ? 0 : cut.cluster == 2 ? 1 : cut.cluster == 4 ? 2 : 3;
  return cuda::cached_query(known[size][cut.together], [&] {
    int clusters = 0;
    const auto config =
        cuda::clusters_of(1, cut.cluster, kMost / cut.together / 32 * 32, kLnRingBytes / cut.together - 1024);
    const auto* const kernel = reinterpret_cast<const void*>(layer_norm_ring_rows<T>);
    return cuda::max_resident_clusters(kernel, config, &clusters) == cudaSuccess ? clusters : 0;
  });
}

template <class T>
void launch(LayerNormResidentArgs args, int multiprocessors, cudaStream_t stream) {
  cuda::allow_shared_memory<layer_norm_ring_rows<T>>(kLnRingBytes, true);
  const Cut cut = cut_of(args.packs);
  std::int64_t clusters = std::int64_t{multiprocessors} * cut.together / cut.cluster;
  if (cut.cluster > 2) {
    const int fitting = resident<T>(cut);
    if (fitting > 0 && fitting < clusters) clusters = fitting;
  }
  clusters = layer_norm_ring_clusters(args.rows, tile::greatest<std::int64_t>(clusters, 1));
  args.cluster = cut.cluster;
  args.row_step = static_cast<std::uint32_t>(clusters);
  cuda::launch_kernel(layer_norm_ring_rows<T>, cuda::clusters_of(clusters, cut.cluster, cut.threads, cut.bytes()),
                      stream, args, LayerNormRingRowsShape{cut.stages, cut.block_packs});
}

}  // namespace

bool layer_norm_ring_rows_fit(const LayerNormParams& params) {
  if (params.around.is_there() || !layer_norm_row_groups_fit(params) || params.out.type != params.x.type) return false;
  const std::int64_t packs = params.within.count() / kLnHalves;
  return packs >= kLeast && params.scale.type == tile::AnyType::f32 && cut_of(packs).cluster > 0;
}

void launch_layer_norm_ring_rows(const LayerNormParams& params, CUstream_st* stream) {
  for_resident_pieces(params, stream, [&](const LayerNormResidentArgs& args, const LayerNormResidentAround&) {
    const auto typed = [&](auto type) { launch<decltype(type)>(args, params.multiprocessors, stream); };
    if (params.x.type == tile::AnyType::f16) return typed(tile::Half{});
    typed(tile::BFloat16{});
  });
}

}  // namespace gpudnn::kernels
