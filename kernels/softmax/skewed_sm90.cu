// Instances and launch of softmax over columns whose rows begin anywhere.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/skewed_sm90.cuh"
#include "kernels/tile/cached_query.hpp"
#include "kernels/tile/shared_memory.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kLeastLength = 32;              // elements
constexpr std::int64_t kMaximum = 75 * 1024;  // shared memory of a block: three share a multiprocessor

// Whether the code that the device runs was made for clusters and asynchronous copies; asked once for each device.
template <auto kKernel>
bool is_for_clusters() {
  static int known[tile::kDevicesKnown] = {};
  return tile::cached_query(known, [] {
           cudaFuncAttributes about = {};
           return cudaFuncGetAttributes(&about, kKernel) == cudaSuccess && about.ptxVersion >= 90 ? 1 : 0;
         }) == 1;
}

// Whether a row begins as far past a multiple of 16 bytes in each tensor.
bool skews_agree(const SoftmaxParams& params, int width) {
  const auto place = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16; };
  if (place(params.a) != place(params.out) || place(params.b) != place(params.out)) return false;
  for (const tile::HostNest* nest : {&params.within, &params.between}) {
    for (int t = 0; t < 2; ++t) {
      for (int i = 0; i < nest->rank; ++i) {
        if ((nest->strides[t][i] - nest->strides[2][i]) % width != 0) return false;
      }
    }
  }
  return true;
}

// Whether the output shares memory with an input.
template <class T>
bool overlaps(const SoftmaxParams& params) {
  const auto* const out = static_cast<const T*>(params.out);
  for (int t = 0; t < 2; ++t) {
    const auto* const in = static_cast<const T*>(t == 0 ? params.a : params.b);
    if (in < out + softmax_extent(params, 2) && out < in + softmax_extent(params, t)) return true;
  }
  return false;
}

template <class T, bool kBackward>
bool launch(const SoftmaxParams& params, const tile::HostNest& piece, SoftmaxArgs<T> args, cudaStream_t stream) {
  constexpr int N = tile::kPackWidth<T>;
  const int last = piece.rank - 1;
  const std::int64_t line = piece.dims[last];
  SkewedTiles tiles;
  tiles.lanes = line + N - 1 <= 8 * N ? 8 : 16;
  if (line * 2 < tiles.lanes * N) return false;
  // The last tile of a line needs no pixels beyond it. All are about as large.
  const std::int64_t most = tiles.lanes * N - 2 * (N - 1);
  const bool is_one = line + N - 1 <= tiles.lanes * N;
  const std::int64_t packs = line / N;
  std::int64_t of_line = is_one ? 1 : (packs * N + most / N * N - 1) / (most / N * N);
  const std::int64_t of_tile = (packs + of_line - 1) / of_line;
  tiles.tile = static_cast<std::int32_t>(of_tile * N);
  if (!is_one) of_line = (packs + of_tile - 1) / of_tile;
  const std::int64_t clusters = piece.count() / line * of_line;
  if (!is_one && overlaps<T>(params)) return false;
  args.cluster = 1;
  const auto rows = [&] { return (args.length + args.cluster - 1) / args.cluster; };
  while (args.cluster < kSkewedMostCluster && skewed_shared<N, kBackward>(tiles.lanes, rows()) > kMaximum) {
    args.cluster *= 2;
  }
  const std::int64_t shared = skewed_shared<N, kBackward>(tiles.lanes, rows());
  if (shared > kMaximum || clusters * args.cluster * 2 < params.multiprocessors ||
      clusters * args.cluster > tile::kMaxIterations || !is_for_clusters<softmax_skewed<T, kBackward>>()) {
    return false;
  }
  tiles.of_line = tile::FastDivmod(static_cast<std::uint32_t>(of_line));
  tiles.line = static_cast<std::int32_t>(line);
  tiles.rows = static_cast<std::int32_t>(rows());
  for (int t = 0; t < 3; ++t) {
    tiles.step[t] = params.within.strides[t][0];
    tiles.by[t] = kSkewedThreads / tiles.lanes * tiles.step[t];
  }
  const void* const inputs[2] = {params.a, params.b};
  for (int t = 0; t < 2; ++t) {
    tiles.begin[t] = inputs[t];
    tiles.end[t] = static_cast<const T*>(inputs[t]) + softmax_extent(params, t);
  }
  tile::HostNest lines = piece;
  lines.dims[last] = 1;
  tiles.lines = tile::LoopNest<3>(lines);
  tile::allow_shared_memory<softmax_skewed<T, kBackward>>(static_cast<int>(kMaximum), true);
  tile::launch_clusters_shared(softmax_skewed<T, kBackward>, clusters, args.cluster, kSkewedThreads,
                               static_cast<int>(shared), stream, args, tiles);
  return true;
}

}  // namespace

template <class T>
bool launch_softmax_skewed(const SoftmaxParams& params, const tile::HostNest& piece, const SoftmaxArgs<T>& args,
                           CUstream_st* stream) {
  if (!params.has_clusters || args.length < kLeastLength || !skews_agree(params, tile::kPackWidth<T>)) return false;
  if (params.backward) return launch<T, true>(params, piece, args, stream);
  if (sizeof(T) == 2 && !params.logarithm && !(args.alpha > 0.0f)) return false;
  return launch<T, false>(params, piece, args, stream);
}
template bool launch_softmax_skewed(const SoftmaxParams&, const tile::HostNest&, const SoftmaxArgs<float>&,
                                    CUstream_st*);
template bool launch_softmax_skewed(const SoftmaxParams&, const tile::HostNest&, const SoftmaxArgs<tile::Half>&,
                                    CUstream_st*);
template bool launch_softmax_skewed(const SoftmaxParams&, const tile::HostNest&, const SoftmaxArgs<tile::BFloat16>&,
                                    CUstream_st*);

}  // namespace gpudnn::kernels
