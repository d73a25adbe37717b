// Instances and launch of adaptive layer normalization over tiles of rows.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/layer_norm/resident_launch.cuh"
#include "kernels/layer_norm/row_tiles_sm90.cuh"

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kLeast = 64;  // packs of a row, at least
constexpr int kFew = 4;              // rows of a tile, at least
constexpr int kMaxBytes = 75 * 1024;

// Rows of a block: as many as divide those of a sample, and leave four blocks for each multiprocessor. 0: too few.
int rows_of(const LayerNormParams& params) {
  const std::int64_t packs = params.within.count() / kLnHalves, of_sample = params.between.dims[1];
  const std::int64_t blocks = 4 * std::int64_t{params.multiprocessors};
  for (int rows = kLnTileRows; rows >= kFew; --rows) {
    if (of_sample % rows == 0 && params.between.count() >= rows * blocks && kLnTileAt + rows * packs * 16 <= kMaxBytes)
      return rows;
  }
  return 0;
}

}  // namespace

bool layer_norm_row_tiles_fit(const LayerNormParams& params) {
  if (!params.has_clusters || params.around.is_there() || !layer_norm_rows_fit(params) ||
      !layer_norm_in_packs(params, kLnHalves) || params.out.type != params.x.type ||
      (params.x.type != tile::AnyType::f16 && params.x.type != tile::AnyType::bf16) || params.between.rank != 2 ||
      !rows_in_line(params) || !alike(params)) {
    return false;
  }
  const tile::HostNest& rows = params.between;
  if (rows.strides[kLnScale][1] != 0 || (params.bias.data != nullptr && rows.strides[kLnOther][1] != 0)) return false;
  const std::int64_t packs = params.within.count() / kLnHalves;
  return packs >= kLeast && packs <= kLnTileThreads && rows_of(params) > 0;
}

void launch_layer_norm_row_tiles(const LayerNormParams& params, CUstream_st* stream) {
  const int rows = rows_of(params);
  for_resident_pieces(params, stream, [&](const LayerNormResidentArgs& args, const LayerNormResidentAround&) {
    const auto launch = [&]<class T, bool kShort>() {
      constexpr auto kKernel = layer_norm_row_tiles<T, kShort>;
      cuda::allow_shared_memory<kKernel>(kMaxBytes, true);
      const int threads = (kLnTileThreads / args.packs * args.packs + 31) / 32 * 32;
      cuda::launch_kernel(
          kKernel,
          cuda::clusters_of(args.rows / static_cast<unsigned>(rows), 1, threads, kLnTileAt + rows * args.packs * 16),
          stream, args, rows);
    };
    const auto typed = [&]<class T>() {
      if (args.packs <= kLnTileShort) return launch.template operator()<T, true>();
      launch.template operator()<T, false>();
    };
    if (params.x.type == tile::AnyType::f16) return typed.template operator()<tile::Half>();
    typed.template operator()<tile::BFloat16>();
  });
}

}  // namespace gpudnn::kernels
