// Instances and launch of layer normalization over rows.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/rows_launch.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

template <class T, int N, int kPacks, int kLanes>
void launch_warps(const LayerNormRowArgs& args, const Rows& rows, cudaStream_t stream) {
  constexpr int kRows = kLnWarpThreads / kLanes;
  cuda::launch_kernel(layer_norm_rows<T, N, kPacks, kLanes>, {(rows.count + kRows - 1) / kRows, kLnWarpThreads}, stream,
                      args, rows);
}

// Rows of up to `each` packs a thread, by a block or a cluster.
template <class T, int N, int kEach>
void launch_blocks(const LayerNormParams& params, LayerNormRowArgs args, const Rows& rows, cudaStream_t stream) {
  const std::int64_t packs = args.length / N;
  constexpr int kMost = layer_norm_threads(kEach, N);
  args.cluster = cluster_of_rows<kEach>(params, packs);
  if (packs > std::int64_t{kMost} * kEach * args.cluster) {
    cuda::launch_kernel(layer_norm_rows<T, N, 0, 0>, cuda::clusters_of(rows.count, args.cluster, 1024), stream, args,
                        rows);
    return;
  }
  const std::int64_t each = (packs + args.cluster * kEach - 1) / (args.cluster * kEach);
  const int threads = static_cast<int>((each + 31) / 32 * 32);
  cuda::launch_kernel(layer_norm_rows<T, N, kEach, 0>, cuda::clusters_of(rows.count, args.cluster, threads), stream,
                      args, rows);
}

template <class T>
void launch_packs(const LayerNormParams& params, const LayerNormRowArgs& args, const Rows& rows, cudaStream_t stream) {
  constexpr int N = tile::kPackWidth<T>;
  const std::int64_t packs = args.length / N;
  if (packs <= 4) return launch_warps<T, N, 1, 4>(args, rows, stream);
  if (packs <= 8) return launch_warps<T, N, 2, 4>(args, rows, stream);
  if (packs <= 16) return launch_warps<T, N, 4, 4>(args, rows, stream);
  if (packs <= 32) return launch_warps<T, N, 4, 8>(args, rows, stream);
  if (packs <= 64) return launch_warps<T, N, 4, 16>(args, rows, stream);
  if (packs <= 96) return launch_warps<T, N, 3, 32>(args, rows, stream);
  if (packs <= 128) return launch_warps<T, N, 4, 32>(args, rows, stream);
  if (packs <= 160) return launch_warps<T, N, 5, 32>(args, rows, stream);
  if (packs <= 192) return launch_warps<T, N, 6, 32>(args, rows, stream);
  if (packs <= 1024) return launch_blocks<T, N, 4>(params, args, rows, stream);
  launch_blocks<T, N, 8>(params, args, rows, stream);
}

// Rows that begin or end between packs: an element at a time.
template <class T>
void launch_elements(const LayerNormParams& params, const LayerNormRowArgs& args, const Rows& rows,
                     cudaStream_t stream) {
  if (args.length <= 256) return launch_warps<T, 1, 8, 32>(args, rows, stream);
  launch_blocks<T, 1, 8>(params, args, rows, stream);
}

template <class T>
void launch_typed(const LayerNormParams& params, const LayerNormRowArgs& args, const Rows& rows, cudaStream_t stream) {
  if (layer_norm_in_packs(params, tile::kPackWidth<T>)) {
    launch_packs<T>(params, args, rows, stream);
  } else {
    launch_elements<T>(params, args, rows, stream);
  }
}

}  // namespace

bool layer_norm_rows_fit(const LayerNormParams& params) {
  return !params.backward && !params.given && layer_norm_is_rows(params);
}

void launch_layer_norm_rows(const LayerNormParams& params, CUstream_st* stream) {
  for_row_pieces(params, [&](const LayerNormRowArgs& args, const Rows& rows, std::int64_t) {
    switch (params.x.type) {
      case tile::AnyType::f16:
        return launch_typed<tile::Half>(params, args, rows, stream);
      case tile::AnyType::bf16:
        return launch_typed<tile::BFloat16>(params, args, rows, stream);
      default:
        return launch_typed<float>(params, args, rows, stream);
    }
  });
}

}  // namespace gpudnn::kernels
