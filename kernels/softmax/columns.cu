// Instances and launch of softmax over columns.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/columns.cuh"
#include "kernels/softmax/launch_args.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;

template <class T, int N, int kPacks, bool kBackward>
void launch_tiles(const SoftmaxArgs<T>& args, ColumnTiles tiles, int lanes, cudaStream_t stream,
                  int threads = kThreads) {
  tiles.lanes = lanes;
  tiles.rows = threads / lanes;
  const unsigned blocks = (tiles.packs.count + static_cast<unsigned>(lanes) - 1) / static_cast<unsigned>(lanes);
  softmax_columns<T, N, kPacks, kBackward><<<blocks, threads, 0, stream>>>(args, tiles);
}

// The widest tile whose rows hold a group in `kPacks` registers each.
template <class T, int N, bool kBackward>
void launch_piece(const SoftmaxArgs<T>& args, const ColumnTiles& tiles, cudaStream_t stream) {
  constexpr int kNarrowest = N > 1 ? 4 : 16;  // 64 bytes and more of neighbouring groups
  constexpr int kMaximum = sizeof(T) == 8 ? 4 : 8;
  int lanes = 256;
  while (lanes > kNarrowest &&
         (kThreads / lanes * 4 < args.length || tiles.packs.count / lanes < 2u * tiles.multiprocessors)) {
    lanes /= 2;
  }
  if (lanes > 8 && N > 1 && kThreads / lanes * 4 >= args.length) {
    return launch_tiles<T, N, 4, kBackward>(args, tiles, lanes, stream);
  }
  lanes = N > 1 ? 8 : 32;
  // Packs of eight, forward: 64 elements a thread would leave room for two blocks, too few to load while others
  // compute.
  if (sizeof(T) == 2 && N > 1 && !kBackward && kThreads / lanes * 4 < args.length &&
      kThreads / kNarrowest * 4 >= args.length) {
    return launch_tiles<T, N, 4, kBackward>(args, tiles, kNarrowest, stream);
  }
  if (kThreads / lanes * 4 >= args.length) return launch_tiles<T, N, 4, kBackward>(args, tiles, lanes, stream);
  if (kThreads / lanes * kMaximum >= args.length)
    return launch_tiles<T, N, kMaximum, kBackward>(args, tiles, lanes, stream);
  if constexpr (N == 1 && sizeof(T) > 2) {  // of 16-bit types those that matter go through shared memory
    constexpr int kLarge = kColumnThreads<1>;
    if (kLarge / lanes * 16 >= args.length)
      return launch_tiles<T, 1, 16, kBackward>(args, tiles, lanes, stream, kLarge);
  }
  lanes = kNarrowest;
  if (kThreads / lanes * kMaximum >= args.length)
    return launch_tiles<T, N, kMaximum, kBackward>(args, tiles, lanes, stream);
  launch_tiles<T, N, 0, kBackward>(args, tiles, N > 1 ? 8 : 32, stream);
}

template <class T, int N>
void launch(const SoftmaxParams& params, cudaStream_t stream) {
  tile::for_each_piece(params.between, tile::kMaxIterations, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                         const SoftmaxArgs<T> args = softmax_args<T>(params, offsets);
                         if constexpr (sizeof(T) < 8 && N == 1) {
                           if (launch_softmax_skewed<T>(params, piece, args, stream)) return;
                         }
                         if constexpr (sizeof(T) == 2) {
                           if (launch_softmax_staged<T>(params, piece, args, N > 1, stream)) return;
                         }
                         ColumnTiles tiles;
                         for (int t = 0; t < 3; ++t) tiles.step[t] = params.within.strides[t][0];
                         tiles.packs = tile::LoopNest<3>(N > 1 ? tile::packed_nest(piece, N) : piece);
                         tiles.multiprocessors = params.multiprocessors;
                         if (params.backward) {
                           launch_piece<T, N, true>(args, tiles, stream);
                         } else {
                           launch_piece<T, N, false>(args, tiles, stream);
                         }
                       });
}

}  // namespace

bool softmax_columns_fit(const SoftmaxParams& params) {
  const int last = params.between.rank - 1;
  if (params.within.rank != 1 || params.within.dims[0] > tile::kMaxIterations) return false;
  for (int t = 0; t < 3; ++t) {
    if (params.between.strides[t][last] != 1) return false;
  }
  return params.between.dims[last] > 1;
}

void launch_softmax_columns(const SoftmaxParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    constexpr int N = tile::kPackWidth<T>;
    bool packs = tile::can_pack(params.between, N, 2);
    for (int t = 0; t < 3; ++t) packs = packs && params.within.strides[t][0] % N == 0;
    packs =
        packs && tile::is_aligned(params.a, 16) && tile::is_aligned(params.b, 16) && tile::is_aligned(params.out, 16);
    if (packs) {
      launch<T, N>(params, stream);
    } else {
      launch<T, 1>(params, stream);
    }
  });
}

}  // namespace gpudnn::kernels
