// Instances and launches of the bias-gradient kernels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bias_grad/bias_grad.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kLargestCluster = 8;  // that every device with clusters must take

// Blocks for each channel or tile: enough of them in all for `wanted`, none with less than two rounds of loads.
int cluster_size(int most, std::int64_t groups, std::int64_t wanted, std::int64_t rounds) {
  int size = 1;
  while (size < most && groups * size < wanted && rounds > 2 * size) size *= 2;
  return size;
}

// A piece after the first adds to what is there.
template <class T>
BiasGradArgs<T> piece_args(const BiasGradParams& params, const tile::HostNest& piece, std::int64_t offset,
                           bool* first) {
  using C = tile::Compute<T>;
  BiasGradArgs<T> args;
  args.dy = static_cast<const T*>(params.dy) + offset;
  args.db = static_cast<T*>(params.db);
  args.alpha = static_cast<C>(params.alpha);
  args.beta = *first ? static_cast<C>(params.beta) : C(1);
  *first = false;
  args.channels = static_cast<std::uint32_t>(params.channels);
  args.dy_channel_step = params.dy_channel_step;
  args.db_channel_step = params.db_channel_step;
  args.sum = tile::LoopNest<1>(piece);
  args.cluster = 1;
  return args;
}

template <class T, int N>
void launch_rows(const BiasGradParams& params, const tile::HostNest& nest, cudaStream_t stream) {
  bool first = true;
  tile::for_each_piece(nest, tile::kMostIterations, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                         BiasGradArgs<T> args = piece_args<T>(params, piece, offsets[0], &first);
                         const std::int64_t rounds = piece.count() / (kRowsThreads * kBiasLoads);
                         const int most = params.has_clusters ? kLargestCluster : 1;
                         args.cluster = cluster_size(most, params.channels, 3 * params.multiprocessors, rounds);
                         tile::launch_clusters(bias_grad_rows<T, N>, params.channels, args.cluster, kRowsThreads,
                                               stream, args);
                       });
}

// The widest tile, of 32 to 128 bytes, that still gives most multiprocessors a block of a cluster of `most`.
int lanes_for(const BiasGradParams& params, std::int64_t packs, int widest, int narrowest, int most) {
  int lanes = widest;
  while (lanes > narrowest && (packs + lanes - 1) / lanes * most < params.multiprocessors * 3 / 4) lanes /= 2;
  while (lanes > 1 && lanes / 2 >= packs) lanes /= 2;
  return lanes;
}

template <class T, int N>
void launch_columns(const BiasGradParams& params, const tile::HostNest& nest, cudaStream_t stream) {
  constexpr int kLargest = 16;  // where the device takes it
  const std::int64_t packs = (params.channels + N - 1) / N;
  const int widest = N > 1 ? 8 : 32;
  const int narrowest = N > 1 ? 2 : 16;
  int most = params.has_clusters ? kLargestCluster : 1;
  int lanes = lanes_for(params, packs, widest, narrowest, most);
  if constexpr (N > 1) {
    // Blocks of one cluster alone can join their sums, so the device's multiprocessors over the size of a cluster are
    // the number of tiles: larger clusters make wider tiles, and tiles of less than 64 bytes waste half of what the
    // memory sends.
    if (params.has_clusters) {
      const int wider = lanes_for(params, packs, widest, narrowest, kLargest);
      const std::int64_t tiles = (packs + wider - 1) / wider;
      if (tiles <= tile::resident_clusters<bias_grad_columns<T, N>, kLargest, kColumnsThreads>()) {
        lanes = wider;
        most = kLargest;
      }
    }
  }
  const std::int64_t tiles = (packs + lanes - 1) / lanes;
  bool first = true;
  tile::for_each_piece(nest, tile::kMostIterations, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                         BiasGradArgs<T> args = piece_args<T>(params, piece, offsets[0], &first);
                         const std::int64_t rounds = piece.count() / (kColumnsThreads / lanes * kBiasLoads);
                         args.cluster = cluster_size(most, tiles, params.multiprocessors, rounds);
                         tile::launch_clusters(bias_grad_columns<T, N>, tiles, args.cluster, kColumnsThreads, stream,
                                               args, lanes);
                       });
}

template <class T>
void launch(const BiasGradParams& params, cudaStream_t stream) {
  constexpr int N = tile::kPackWidth<T>;
  const tile::HostNest& nest = params.sum;
  const int last = nest.rank - 1;
  const bool aligned = tile::is_aligned(params.dy, 16);
  if (params.dy_channel_step == 1 && params.channels > 1 && (nest.strides[0][last] != 1 || nest.dims[last] == 1)) {
    bool packs = aligned && params.channels % N == 0;
    for (int i = 0; i <= last; ++i) packs = packs && (nest.dims[i] == 1 || nest.strides[0][i] % N == 0);
    return packs ? launch_columns<T, N>(params, nest, stream) : launch_columns<T, 1>(params, nest, stream);
  }
  if (aligned && params.dy_channel_step % N == 0 && tile::can_pack(nest, N, 0)) {
    return launch_rows<T, N>(params, tile::packed_nest(nest, N), stream);
  }
  launch_rows<T, 1>(params, nest, stream);
}

}  // namespace

void launch_bias_grad(const BiasGradParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() { launch<T>(params, stream); });
}

}  // namespace gpudnn::kernels
