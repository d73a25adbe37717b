// Instances and launch of layer normalization over rows.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/fit.hpp"
#include "kernels/layer_norm/rows.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

using Rows = tile::LoopNest<kLnSlots>;

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
  const int most = params.has_clusters ? kLnMaxCluster : 1;
  constexpr int kMost = layer_norm_threads(kEach, N);
  // Blocks of at most 256 threads as far as clusters go: a larger one has a multiprocessor to itself, which then loads
  // or computes, but not both. And as many blocks as there are multiprocessors, where the rows are few.
  while (args.cluster < most && packs > 256 * kEach * args.cluster) args.cluster *= 2;
  while (args.cluster < most && packs > 64 * kEach * args.cluster &&
         static_cast<std::int64_t>(rows.count) * args.cluster < params.multiprocessors) {
    args.cluster *= 2;
  }
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

LayerNormRowArgs row_args(const LayerNormParams& params) {
  LayerNormRowArgs args = {};
  args.x = params.x.data;
  args.y = params.out.data;
  args.y_type = params.out.type;
  args.y_as_x = params.out.type == params.x.type;
  args.rms = params.rms;
  args.by_column = layer_norm_by_column(params);
  args.scale = {params.scale.data, params.scale.type};
  args.bias = {params.bias.data, params.bias.type};
  args.mean = params.mean.data;
  args.inverse = params.inverse.data;
  args.mean_type = params.mean.type;
  args.inverse_type = params.inverse.type;
  args.length = params.within.count();
  const tile::HostNest& within = params.within;
  // One parameter for all columns: divisor 1 says so.
  args.segment = tile::FastDivmod(within.rank == 2 ? static_cast<std::uint32_t>(within.dims[1]) : 1u);
  args.epsilon = static_cast<float>(params.epsilon);
  args.one_over_length = static_cast<float>(1 / static_cast<double>(args.length));
  args.cluster = 1;
  return args;
}

}  // namespace

bool layer_norm_rows_fit(const LayerNormParams& params) {
  return !params.backward && !params.given && layer_norm_is_rows(params);
}

void launch_layer_norm_rows(const LayerNormParams& params, CUstream_st* stream) {
  tile::for_each_piece(
      params.between, tile::kMaxIterations / kLnMaxCluster, {},
      [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
        LayerNormParams part = params;
        for (const auto& [tensor, slot] :
             {Part{&part.x, kLnX}, Part{&part.out, kLnOut}, Part{&part.scale, kLnScale}, Part{&part.bias, kLnOther},
              Part{&part.mean, kLnMean}, Part{&part.inverse, kLnInverse}}) {
          advance(tensor, offsets[slot]);
        }
        const LayerNormRowArgs args = row_args(part);
        const Rows rows(piece);
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
