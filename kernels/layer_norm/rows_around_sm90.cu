// Instances and launch of layer normalization over rows with something around it.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/rows_launch.cuh"

namespace gpudnn::kernels {
namespace {

template <class T, int kPacks, int kLanes>
void launch_warps(const LayerNormRowArgs& args, const Rows& rows, const LayerNormRowAround& around,
                  cudaStream_t stream) {
  constexpr int kRows = kLnWarpThreads / kLanes;
  cuda::launch_kernel(layer_norm_rows_around<T, tile::kPackWidth<T>, kPacks, kLanes>,
                      {(rows.count + kRows - 1) / kRows, kLnWarpThreads}, stream, args, rows, around);
}

template <class T, int kEach>
void launch_blocks(const LayerNormParams& params, LayerNormRowArgs args, const Rows& rows,
                   const LayerNormRowAround& around, cudaStream_t stream) {
  constexpr int N = tile::kPackWidth<T>;
  const std::int64_t packs = args.length / N;
  args.cluster = cluster_of_rows<kEach>(params, packs);
  const std::int64_t each = (packs + args.cluster * kEach - 1) / (args.cluster * kEach);
  const int threads = static_cast<int>((each + 31) / 32 * 32);
  cuda::launch_kernel(layer_norm_rows_around<T, N, kEach, 0>, cuda::clusters_of(rows.count, args.cluster, threads),
                      stream, args, rows, around);
}

template <class T>
void launch_typed(const LayerNormParams& params, const LayerNormRowArgs& args, const Rows& rows,
                  const LayerNormRowAround& around, cudaStream_t stream) {
  const std::int64_t packs = args.length / tile::kPackWidth<T>;
  if (packs <= 64) return launch_warps<T, 4, 16>(args, rows, around, stream);
  if (packs <= 128) return launch_warps<T, 4, 32>(args, rows, around, stream);
  if (packs <= 192) return launch_warps<T, 6, 32>(args, rows, around, stream);
  if (packs <= 1024) return launch_blocks<T, 4>(params, args, rows, around, stream);
  launch_blocks<T, 8>(params, args, rows, around, stream);
}

}  // namespace

bool layer_norm_rows_around_fit(const LayerNormParams& params) {
  if (!params.has_clusters || !layer_norm_rows_fit(params) ||
      (params.x.type != tile::AnyType::f16 && params.x.type != tile::AnyType::bf16))
    return false;
  constexpr int kWidth = 8;
  if (!layer_norm_in_packs(params, kWidth)) return false;
  for (const void* pointer : {params.around.residual, static_cast<const void*>(params.around.sum)})
    if (!tile::is_aligned(pointer, 16)) return false;
  // A row in the registers of a cluster.
  const std::int64_t most = std::int64_t{kLnMaxCluster} * 8 * layer_norm_threads(8, kWidth);
  const bool rounds = params.out.type != tile::AnyType::f32;
  return params.within.count() / kWidth <= most &&
         gemm::is_common(gemm::activation_args<float>(params.around.activation, params.around.function), rounds);
}

void launch_layer_norm_rows_around(const LayerNormParams& params, CUstream_st* stream) {
  LayerNormRowAround around = {};
  around.factor = params.around.factor;
  around.number = params.around.number;
  around.amax = reinterpret_cast<std::uint32_t*>(params.around.amax);
  around.activation = gemm::activation_args<float>(params.around.activation, params.around.function);
  around.activation.drops_nan = params.around.drops_nan;
  around.clamps = around.activation.mode == gemm::Activation::relu && around.activation.lower == 0.0f &&
                  around.activation.slope == 0.0f && !around.activation.clips && !around.activation.drops_nan;
  if (around.amax != nullptr && cudaMemsetAsync(around.amax, 0, sizeof(float), stream) != cudaSuccess) return;
  for_row_pieces(params, [&](const LayerNormRowArgs& args, const Rows& rows, std::int64_t offset) {
    LayerNormRowAround part = around;
    const auto moved = [offset](const void* data) {
      return data == nullptr ? nullptr : static_cast<const tile::Half*>(data) + offset;
    };
    part.residual = moved(params.around.residual);
    part.sum = const_cast<tile::Half*>(moved(params.around.sum));  // NOLINT: it was writable
    if (params.x.type == tile::AnyType::f16) return launch_typed<tile::Half>(params, args, rows, part, stream);
    launch_typed<tile::BFloat16>(params, args, rows, part, stream);
  });
}

}  // namespace gpudnn::kernels
