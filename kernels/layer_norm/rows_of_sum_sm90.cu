// Instances and launch of layer normalization over rows of x and a residual, where rows are many.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/rows_launch.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kWidth = 8;  // halves of a pack

template <class T, int kEach>
void launch_blocks(const LayerNormParams& params, LayerNormRowArgs args, const Rows& rows,
                   const LayerNormRowResidual& residual, cudaStream_t stream) {
  const std::int64_t packs = args.length / kWidth;
  args.cluster = cluster_of_rows<kEach>(params, packs);
  const std::int64_t each = (packs + args.cluster * kEach - 1) / (args.cluster * kEach);
  const int threads = static_cast<int>((each + 31) / 32 * 32);
  cuda::launch_kernel(layer_norm_rows_of_sum<T, kWidth, kEach>, cuda::clusters_of(rows.count, args.cluster, threads),
                      stream, args, rows, residual);
}

template <class T>
void launch_typed(const LayerNormParams& params, const LayerNormRowArgs& args, const Rows& rows,
                  const LayerNormRowResidual& residual, cudaStream_t stream) {
  if (args.length / kWidth <= 1024) return launch_blocks<T, 4>(params, args, rows, residual, stream);
  launch_blocks<T, 8>(params, args, rows, residual, stream);
}

}  // namespace

bool layer_norm_rows_of_sum_fit(const LayerNormParams& params) {
  const LayerNormAround& around = params.around;
  if (!params.has_clusters || !layer_norm_rows_fit(params) || !layer_norm_in_packs(params, kWidth) ||
      (params.x.type != tile::AnyType::f16 && params.x.type != tile::AnyType::bf16)) {
    return false;
  }
  if (around.residual == nullptr || around.activation != matmul::Activation::identity || around.factor != nullptr ||
      around.number != 1.0f || around.amax != nullptr) {
    return false;
  }
  for (const void* pointer : {around.residual, static_cast<const void*>(around.sum)})
    if (!tile::is_aligned(pointer, 16)) return false;
  // Shorter rows, and those that are few, have kernels of their own.
  const std::int64_t packs = params.within.count() / kWidth;
  return packs > 192 && packs <= std::int64_t{kLnMaxCluster} * 8 * layer_norm_threads(8, kWidth) &&
         params.between.count() > 2 * std::int64_t{params.multiprocessors};
}

void launch_layer_norm_rows_of_sum(const LayerNormParams& params, CUstream_st* stream) {
  for_row_pieces(params, [&](const LayerNormRowArgs& args, const Rows& rows, std::int64_t offset) {
    const auto moved = [offset](const void* data) {
      return data == nullptr ? nullptr : static_cast<const tile::Half*>(data) + offset;
    };
    const LayerNormRowResidual residual = {
        moved(params.around.residual), const_cast<tile::Half*>(moved(params.around.sum))};  // NOLINT: it was writable
    if (params.x.type == tile::AnyType::f16) return launch_typed<tile::Half>(params, args, rows, residual, stream);
    launch_typed<tile::BFloat16>(params, args, rows, residual, stream);
  });
}

}  // namespace gpudnn::kernels
