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

// Packs of a row, at least: with floats for each column, and where many columns share their parameters. Shorter rows,
// and those whose parameters are halves, have groups (row_groups_sm90.cu), which read the parameters once for two rows.
constexpr std::int64_t kLeast = 2048;
constexpr std::int64_t kLeastShared = 2048;

struct Cut {
  int cluster = 0;
  int together = 0;  // blocks of a multiprocessor
  int threads = 0;
  int stages = 0;
  int block_packs = 0;
  [[nodiscard]] int bytes() const { return kLnRingRowsStagesAt + stages * block_packs * 16; }
};

// The more of a row a multiprocessor's threads have at a time, the better: of larger clusters more blocks fit.
template <bool kByColumn>
Cut cut_of(std::int64_t packs) {
  Cut cut;
  for (int cluster = 1; cluster <= kLnMaxCluster; cluster *= 2) {
    Cut trial;
    trial.cluster = cluster;
    trial.block_packs = static_cast<int>((packs + cluster - 1) / cluster);
    trial.threads = ((trial.block_packs + kLnRingRowsPacks - 1) / kLnRingRowsPacks + 31) / 32 * 32;
    if (trial.threads > layer_norm_ring_rows_threads(kByColumn) || trial.threads < kLnRingMinThreads) continue;
    trial.together = layer_norm_ring_rows_threads(kByColumn) / trial.threads;
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
template <class T, bool kByColumn>
int resident(const Cut& cut) {
  constexpr int kMost = layer_norm_ring_rows_threads(kByColumn);
  static int known[4][kMost / kLnRingMinThreads + 1][cuda::kDevicesKnown] = {};
  const int size = cut.cluster == 1 ? 0 : cut.cluster == 2 ? 1 : cut.cluster == 4 ? 2 : 3;
  return cuda::cached_query(known[size][cut.together], [&] {
    int clusters = 0;
    const auto config =
        cuda::clusters_of(1, cut.cluster, kMost / cut.together / 32 * 32, kLnRingBytes / cut.together - 1024);
    const auto* const kernel = reinterpret_cast<const void*>(layer_norm_ring_rows<T, kByColumn>);
    return cuda::max_resident_clusters(kernel, config, &clusters) == cudaSuccess ? clusters : 0;
  });
}

template <class T, bool kByColumn>
void launch(LayerNormResidentArgs args, int multiprocessors, cudaStream_t stream) {
  cuda::allow_shared_memory<layer_norm_ring_rows<T, kByColumn>>(kLnRingBytes, true);
  const Cut cut = cut_of<kByColumn>(args.packs);
  std::int64_t clusters = std::int64_t{multiprocessors} * cut.together / cut.cluster;
  if (cut.cluster > 2) {
    const int fitting = resident<T, kByColumn>(cut);
    if (fitting > 0 && fitting < clusters) clusters = fitting;
  }
  clusters = layer_norm_ring_clusters(args.rows, tile::greatest<std::int64_t>(clusters, 1));
  args.cluster = cut.cluster;
  args.row_step = static_cast<std::uint32_t>(clusters);
  cuda::launch_kernel(layer_norm_ring_rows<T, kByColumn>,
                      cuda::clusters_of(clusters, cut.cluster, cut.threads, cut.bytes()), stream, args,
                      LayerNormRingRowsShape{cut.stages, cut.block_packs});
}

}  // namespace

bool layer_norm_ring_rows_fit(const LayerNormParams& params) {
  if (!params.has_clusters || params.around.is_there() || !layer_norm_rows_fit(params) ||
      !layer_norm_in_packs(params, kLnHalves) || params.out.type != params.x.type || !rows_in_line(params) ||
      (params.x.type != tile::AnyType::f16 && params.x.type != tile::AnyType::bf16) ||
      are_few(params.between.count(), params.multiprocessors)) {
    return false;
  }
  const std::int64_t packs = params.within.count() / kLnHalves;
  if (!layer_norm_by_column(params)) return packs >= kLeastShared && cut_of<false>(packs).cluster > 0;
  return packs >= kLeast && layer_norm_row_groups_fit(params) && params.scale.type == tile::AnyType::f32 &&
         cut_of<true>(packs).cluster > 0;
}

void launch_layer_norm_ring_rows(const LayerNormParams& params, CUstream_st* stream) {
  for_resident_pieces(params, stream, [&](const LayerNormResidentArgs& args, const LayerNormResidentAround&) {
    const auto typed = [&](auto type) {
      using T = decltype(type);
      if (args.by_column) return launch<T, true>(args, params.multiprocessors, stream);
      launch<T, false>(args, params.multiprocessors, stream);
    };
    if (params.x.type == tile::AnyType::f16) return typed(tile::Half{});
    typed(tile::BFloat16{});
  });
}

}  // namespace gpudnn::kernels
