// Instances and launch of layer normalization over rows of halves by blocks that stay.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/resident_launch.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

template <class T, int kPacks, int kLanes, bool kAround>
void launch(LayerNormResidentArgs args, const LayerNormResidentAround& around, int multiprocessors, int threads,
            cudaStream_t stream) {
  constexpr std::int64_t kRows = kLanes > 0 ? kLnWarpThreads / kLanes : 1;  // of a block
  const std::int64_t together = tile::greatest(layer_norm_resident_threads(kPacks, kAround) / threads, 1);
  const std::int64_t at_once = tile::greatest<std::int64_t>(multiprocessors * together / args.cluster, 1);
  const std::int64_t turns = (args.rows + at_once * kRows - 1) / (at_once * kRows);
  // As few blocks as take all rows in as many turns.
  const std::int64_t blocks = (args.rows + turns * kRows - 1) / (turns * kRows);
  args.row_step = static_cast<std::uint32_t>(blocks * kRows);
  cuda::launch_kernel(layer_norm_resident_rows<T, kPacks, kLanes, kAround>,
                      cuda::clusters_of(blocks, args.cluster, threads), stream, args, around);
}

// Rows by a block each, or by a cluster.
template <class T, int kPacks, bool kAround>
void launch_blocks(LayerNormResidentArgs args, const LayerNormResidentAround& around, int multiprocessors,
                   cudaStream_t stream) {
  constexpr int kMost = layer_norm_resident_threads(kPacks, kAround);
  const int all = (args.packs + kPacks - 1) / kPacks;
  while (all > args.cluster * kMost) args.cluster *= 2;
  const int threads = ((all + args.cluster - 1) / args.cluster + 31) / 32 * 32;
  launch<T, kPacks, 0, kAround>(args, around, multiprocessors, threads, stream);
}

template <class T, bool kAround>
void launch_typed(const LayerNormResidentArgs& args, const LayerNormResidentAround& around, int multiprocessors,
                  cudaStream_t stream) {
  if constexpr (kAround) {
    if (args.packs <= 64) return launch<T, 4, 16, true>(args, around, multiprocessors, kLnWarpThreads, stream);
    if (args.packs <= 128) return launch<T, 4, 32, true>(args, around, multiprocessors, kLnWarpThreads, stream);
  }
  // A residual has registers of its own.
  if constexpr (kAround) {
    if (around.residual == nullptr && !are_few(args.rows, multiprocessors))
      return launch_blocks<T, kLnResidentMany, true>(args, around, multiprocessors, stream);
  }
  launch_blocks<T, kLnResidentFew, kAround>(args, around, multiprocessors, stream);
}

}  // namespace

bool layer_norm_resident_rows_fit(const LayerNormParams& params) {
  if (!params.has_clusters || !layer_norm_rows_fit(params) || !layer_norm_in_packs(params, kLnHalves) ||
      (params.x.type != tile::AnyType::f16 && params.x.type != tile::AnyType::bf16)) {
    return false;
  }
  if (!rows_in_line(params)) return false;
  const std::int64_t packs = params.within.count() / kLnHalves;
  const bool around = params.around.is_there();
  if (!around && (packs <= 192 || packs > 2048 || !alike(params))) return false;
  // Of many rows, those of f16 alone: where conversions are instructions of their own, rows.cu has more of them.
  const bool of_f16 = params.x.type == tile::AnyType::f16 && params.scale.type == tile::AnyType::f16;
  if (!around && !of_f16 && !are_few(params.between.count(), params.multiprocessors)) return false;
  const int threads = layer_norm_resident_threads(kLnResidentFew, around);
  if (packs > std::int64_t{kLnMaxCluster} * threads * kLnResidentFew) return false;
  for (const void* pointer : {params.around.residual, static_cast<const void*>(params.around.sum)})
    if (!tile::is_aligned(pointer, 16)) return false;
  const bool rounds = params.out.type != tile::AnyType::f32;
  return gemm::is_common(gemm::activation_args<float>(params.around.activation, params.around.function), rounds);
}

void launch_layer_norm_resident_rows(const LayerNormParams& params, CUstream_st* stream) {
  const bool is_around = params.around.is_there();
  for_resident_pieces(params, stream, [&](const LayerNormResidentArgs& args, const LayerNormResidentAround& around) {
    const auto typed = [&](auto type) {
      using T = decltype(type);
      if (is_around) return launch_typed<T, true>(args, around, params.multiprocessors, stream);
      launch_typed<T, false>(args, around, params.multiprocessors, stream);
    };
    if (params.x.type == tile::AnyType::f16) return typed(tile::Half{});
    typed(tile::BFloat16{});
  });
}

}  // namespace gpudnn::kernels
