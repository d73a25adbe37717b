// Instances and launch of layer normalization over groups of rows of halves.
// SPDX-License-Identifier: Apache-2.0

#include "kernels/layer_norm/resident_launch.cuh"
#include "kernels/layer_norm/row_groups_sm90.cuh"

namespace gpudnn::kernels {
namespace {

// Threads of a block, at most: a row of up to 12288 columns has one, and larger rows a cluster of smaller ones.
constexpr std::int64_t kAlone = std::int64_t{kLnGroupBlock} * kLnGroupPacks;  // packs
constexpr int kInCluster = 256;

template <class T, int kAround>
void launch(LayerNormResidentArgs args, const LayerNormResidentAround& around, cudaStream_t stream) {
  const int most = args.packs <= kAlone ? kLnGroupBlock : kInCluster;
  const int all = (args.packs + kLnGroupPacks - 1) / kLnGroupPacks;
  args.cluster = 1;
  while (all > args.cluster * most) args.cluster *= 2;
  const int threads = ((all + args.cluster - 1) / args.cluster + 31) / 32 * 32;
  const int warps = args.cluster * threads / 32;
  args.part_values = args.packs == warps * 32 * kLnGroupPacks ? 32.0f * kLnGroupPacks * kLnHalves : 0.0f;
  args.join_lanes = 1;
  while (args.join_lanes < 32 && args.join_lanes < warps) args.join_lanes *= 2;
  cuda::launch_kernel(layer_norm_row_groups<T, kAround>,
                      cuda::clusters_of((args.rows + kLnGroupRows - 1) / kLnGroupRows, args.cluster, threads), stream,
                      args, around);
}

}  // namespace

bool layer_norm_row_groups_fit(const LayerNormParams& params) {
  if (!params.has_clusters || !layer_norm_rows_fit(params) || !layer_norm_in_packs(params, kLnHalves) ||
      (params.x.type != tile::AnyType::f16 && params.x.type != tile::AnyType::bf16)) {
    return false;
  }
  if (!rows_in_line(params) || !alike(params) || are_few(params.between.count(), params.multiprocessors)) return false;
  for (int i = 0; i < params.between.rank; ++i)
    if (params.between.strides[kLnScale][i] != 0 || params.between.strides[kLnOther][i] != 0) return false;
  const std::int64_t packs = params.within.count() / kLnHalves;
  // Up to 128 packs a warp has rows of its own; those of 129 to 192 would leave half of two warps without work.
  const bool by_a_warp = packs > 64 && packs <= 128 && !params.around.is_there() && params.out.type == params.x.type;
  if ((packs <= 192 && !by_a_warp) || packs > std::int64_t{kLnMaxCluster} * kInCluster * kLnGroupPacks) return false;
  const LayerNormAround& around = params.around;
  const bool as_x = params.out.type == params.x.type;
  if (!around.is_there()) return as_x || params.out.type == tile::AnyType::e4m3;
  for (const void* pointer : {around.residual, static_cast<const void*>(around.sum)})
    if (!tile::is_aligned(pointer, 16)) return false;
  const auto activation = resident_activation(around);
  if (!as_x && params.out.type != tile::AnyType::e4m3) return false;
  if (activation.mode == gemm::Activation::gelu)
    return around.residual == nullptr && around.amax == nullptr && around.factor == nullptr && around.number == 1;
  return clamps_at_zero(activation) || activation.mode == gemm::Activation::identity ||
         activation.mode == gemm::Activation::swish;
}

void launch_layer_norm_row_groups(const LayerNormParams& params, CUstream_st* stream) {
  const bool is_behind = params.around.is_there() || params.out.type != params.x.type;
  for_resident_pieces(params, stream, [&](const LayerNormResidentArgs& args, const LayerNormResidentAround& around) {
    const auto typed = [&](auto type) {
      using T = decltype(type);
      if (around.residual != nullptr) return launch<T, kLnBoth>(args, around, stream);
      if (around.activation.mode == gemm::Activation::gelu) return launch<T, kLnGelu>(args, around, stream);
      if (is_behind) return launch<T, kLnBehind>(args, around, stream);
      launch<T, kLnNothing>(args, around, stream);
    };
    if (params.x.type == tile::AnyType::f16) return typed(tile::Half{});
    typed(tile::BFloat16{});
  });
}

}  // namespace gpudnn::kernels
