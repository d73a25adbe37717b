// Instances and launches of the bias-gradient kernels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bias_grad/bias_grad.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kLargestCluster = 8;  // that every device with clusters must take

// A piece after the first adds to what is there.
template <class T>
BiasGradArgs<T> piece_args(const BiasGradParams& params, std::int64_t offset, bool* first) {
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
  args.cluster = 1;
  args.lanes = 1;
  args.sharers = 1;
  return args;
}

// Whether every line begins and ends at a multiple of the pack.
bool is_even(const void* dy, std::int64_t channel_step, const tile::HostNest& nest, int width) {
  const int last = nest.rank - 1;
  bool even = tile::is_aligned(dy, 16) && channel_step % width == 0 && nest.dims[last] % width == 0;
  for (int i = 0; i < last; ++i) even = even && (nest.dims[i] == 1 || nest.strides[0][i] % width == 0);
  return even;
}

// Blocks for each channel: enough for most multiprocessors to have two, none with less than two rounds of loads. Half
// of that is enough bytes in flight, and a cluster costs more than the other half brings.
int rows_cluster(const BiasGradParams& params, std::int64_t rounds) {
  int size = 1;
  while (params.has_clusters && size < kLargestCluster && params.channels * size < params.multiprocessors &&
         rounds > 2 * size) {
    size *= 2;
  }
  return size;
}

template <class T, int N>
void launch_rows_piece(const BiasGradParams& params, const tile::HostNest& piece, BiasGradArgs<T> args,
                       cudaStream_t stream) {
  args.sum = tile::make_line_nest(piece, N, N > 1 && !is_even(args.dy, params.dy_channel_step, piece, N));
  args.cluster = rows_cluster(params, args.sum.count / (kRowsThreads * kBiasLoads));
  tile::launch_clusters(bias_grad_rows<T, N>, params.channels, args.cluster, kRowsThreads, stream, args);
}

template <class T>
void launch_rows(const BiasGradParams& params, cudaStream_t stream) {
  constexpr int N = tile::kPackWidth<T>;
  bool first = true;
  tile::for_each_piece(params.sum, tile::kMaxIterations, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                         const BiasGradArgs<T> args = piece_args<T>(params, offsets[0], &first);
                         const int last = piece.rank - 1;
                         if (piece.strides[0][last] == 1 && piece.dims[last] >= 2 * N) {
                           launch_rows_piece<T, N>(params, piece, args, stream);
                         } else {
                           launch_rows_piece<T, 1>(params, piece, args, stream);
                         }
                       });
}

// Tiles of kColumnsWidth channels, and as many blocks for each as give every multiprocessor one; but none with less
// than two rounds of loads, and no more than the slot has room for.
template <class T, int N>
void launch_columns_piece(const BiasGradParams& params, const tile::HostNest& piece, BiasGradArgs<T> args,
                          cudaStream_t stream) {
  const std::int64_t packs = (params.channels + N - 1) / N;
  args.lanes = tile::least(kColumnsWidth / N, 32);
  while (args.lanes > 1 && args.lanes / 2 >= packs) args.lanes /= 2;
  const std::int64_t tiles = (packs + args.lanes - 1) / args.lanes;
  const std::int64_t rounds = piece.count() / (kColumnsThreads / args.lanes * kBiasLoads);
  const std::int64_t room = kBiasSlotBytes / (params.channels * static_cast<std::int64_t>(sizeof(args.alpha)));
  args.sharers = static_cast<int>(
      tile::greatest<std::int64_t>(1, tile::least(tile::least(params.multiprocessors / tiles, rounds / 2), room)));
  args.key = args.sharers > 1 ? tile::mailbox_key(args.db) : 0;
  args.sum = tile::make_line_nest(piece, 1, false);
  const dim3 blocks(static_cast<unsigned>(tiles), static_cast<unsigned>(args.sharers));
  bias_grad_columns<T, N><<<blocks, kColumnsThreads, 0, stream>>>(args);
}

template <class T, int N>
void launch_columns(const BiasGradParams& params, cudaStream_t stream) {
  bool first = true;
  tile::for_each_piece(params.sum, tile::kMaxIterations, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                         launch_columns_piece<T, N>(params, piece, piece_args<T>(params, offsets[0], &first), stream);
                       });
}

template <class T>
void launch(const BiasGradParams& params, cudaStream_t stream) {
  constexpr int N = tile::kPackWidth<T>;
  const tile::HostNest& nest = params.sum;
  const int last = nest.rank - 1;
  if (params.dy_channel_step == 1 && params.channels > 1 && (nest.strides[0][last] != 1 || nest.dims[last] == 1)) {
    bool packs = tile::is_aligned(params.dy, 16) && params.channels % N == 0;
    for (int i = 0; i <= last; ++i) packs = packs && (nest.dims[i] == 1 || nest.strides[0][i] % N == 0);
    return packs ? launch_columns<T, N>(params, stream) : launch_columns<T, 1>(params, stream);
  }
  launch_rows<T>(params, stream);
}

}  // namespace

void launch_bias_grad(const BiasGradParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() { launch<T>(params, stream); });
}

}  // namespace gpudnn::kernels
