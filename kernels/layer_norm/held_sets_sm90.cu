// Instances and launch of group and instance normalization over sets that clusters hold.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/cached_query.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/layer_norm/held_sets_sm90.cuh"
#include "kernels/layer_norm/resident_launch.cuh"

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kLeast = 1024;       // packs of a set, at least
constexpr int kEnoughBytes = 44 * 1024;     // of a block: five or more share a multiprocessor
constexpr int kMaxBytes = 110 * 1024;       // two of them do
constexpr int kMaxBytesAlone = 220 * 1024;  // of a block of the largest clusters, which not every device has

struct Cut {
  int cluster = 0;  // 0: not to be held
  int bytes = 0;    // of a block
  LayerNormHeldSetsShape shape = {};
};

int pack_width(const LayerNormParams& params) { return 16 / tile::any_type_bytes(params.x.type); }
std::int64_t packs_of(const LayerNormParams& params) { return params.within.count() / pack_width(params); }

Cut cut_of(const LayerNormParams& params) {
  const std::int64_t packs = packs_of(params);
  Cut cut;
  for (int cluster = 2; cluster <= kLnHeldCluster; cluster *= 2) {
    const std::int64_t block_packs = (packs + cluster - 1) / cluster;
    const std::int64_t segment = params.within.rank == 2 ? params.within.dims[1] : 0;
    const std::int64_t segments = segment == 0 ? 1 : block_packs * pack_width(params) / segment + 2;
    const std::int64_t bytes = block_packs * 16 + segments * 8 + 4096;
    if (bytes > (cluster == kLnHeldCluster ? kMaxBytesAlone : kMaxBytes)) continue;
    cut.cluster = cluster;
    cut.shape.block_packs = static_cast<std::int32_t>(block_packs);
    cut.shape.piece_packs = static_cast<std::int32_t>((block_packs + kLnHeldWarps - 1) / kLnHeldWarps);
    cut.shape.segments = static_cast<std::int32_t>(segments);
    cut.bytes = layer_norm_held_at(cut.shape.segments) + cut.shape.block_packs * 16;
    // Small enough, and blocks for all multiprocessors; else of the largest cluster that every device has.
    if (cluster == kLnMaxCluster ||
        (cut.bytes <= kEnoughBytes && params.between.count() * cluster >= 2 * params.multiprocessors))
      break;
  }
  return cut;
}

// Whether the device has the largest clusters.
template <class T>
bool has_largest_clusters() {
  static int known[cuda::kDevicesKnown] = {};
  return cuda::cached_query(known, [] {
           constexpr auto kKernel = layer_norm_held_sets<T>;
           const auto* const kernel = reinterpret_cast<const void*>(kKernel);
           cuda::allow_shared_memory<kKernel>(kMaxBytesAlone, true);
           int clusters = 0;
           if (cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess &&
               cuda::max_resident_clusters(kernel, cuda::clusters_of(1, kLnHeldCluster, kLnHeldThreads, kMaxBytesAlone),
                                           &clusters) == cudaSuccess) {
             return clusters;
           }
           (void)cudaGetLastError();  // it is an answer, no failure of the call
           return 0;
         }) > 0;
}

// use(T) for the type of x.
template <class Use>
auto with_type(tile::AnyType type, const Use& use) {
  if (type == tile::AnyType::f16) return use(tile::Half{});
  if (type == tile::AnyType::bf16) return use(tile::BFloat16{});
  return use(0.0f);
}

}  // namespace

bool layer_norm_held_sets_fit(const LayerNormParams& params) {
  if (!params.has_clusters || params.around.is_there() || !layer_norm_rows_fit(params) ||
      !layer_norm_in_packs(params, pack_width(params)) || params.out.type != params.x.type || !rows_in_line(params) ||
      layer_norm_by_column(params)) {
    return false;
  }
  const std::int64_t packs = packs_of(params);
  if (packs < kLeast || params.between.count() * packs < 512 * std::int64_t{params.multiprocessors}) return false;
  const Cut cut = cut_of(params);
  if (cut.cluster <= kLnMaxCluster) return cut.cluster > 0;
  return with_type(params.x.type, [](auto type) { return has_largest_clusters<decltype(type)>(); });
}

void launch_layer_norm_held_sets(const LayerNormParams& params, CUstream_st* stream) {
  const Cut cut = cut_of(params);
  for_resident_pieces(params, stream, [&](LayerNormResidentArgs args, const LayerNormResidentAround&) {
    args.packs = static_cast<std::int32_t>(packs_of(params));
    args.cluster = cut.cluster;
    with_type(params.x.type, [&](auto type) {
      constexpr auto kKernel = layer_norm_held_sets<decltype(type)>;
      cuda::allow_shared_memory<kKernel>(kMaxBytesAlone, true);
      cuda::launch_kernel(kKernel, cuda::clusters_of(args.rows, cut.cluster, kLnHeldThreads, cut.bytes), stream, args,
                          cut.shape);
    });
  });
}

}  // namespace gpudnn::kernels
