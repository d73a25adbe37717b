// Instances and launch of softmax over rows.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/launch_args.cuh"
#include "kernels/softmax/rows.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kLargestCluster = 8;
constexpr std::int64_t kRingPacks = 2048;  // a longer row is more than one block should hold in registers

template <class T, int kPacks, int kLanes, bool kBackward>
void launch_warps(const SoftmaxArgs<T>& args, const tile::LoopNest<3>& rows, cudaStream_t stream) {
  constexpr int kRows = kWarpRowsThreads / kLanes;
  softmax_rows<T, kPacks, kLanes, kBackward>
      <<<(rows.count + kRows - 1) / kRows, kWarpRowsThreads, 0, stream>>>(args, rows);
}

template <class T, int kPacks, bool kBackward>
void launch_blocks(const SoftmaxArgs<T>& args, const tile::LoopNest<3>& rows, int threads, cudaStream_t stream) {
  tile::launch_clusters(softmax_rows<T, kPacks, 0, kBackward>, rows.count, args.cluster, threads, stream, args, rows);
}

template <class T, bool kBackward>
void launch_piece(const SoftmaxParams& params, SoftmaxArgs<T> args, const tile::LoopNest<3>& rows,
                  cudaStream_t stream) {
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kMaximum =
      kBackward || sizeof(T) == 8 ? 4 : 8;  // packs of each input that a thread of a block of 1024 can hold
  const std::int64_t packs = (args.length + N - 1) / N;
  if (packs <= 32) return launch_warps<T, 2, 16, kBackward>(args, rows, stream);
  if (packs <= 64) return launch_warps<T, 4, 16, kBackward>(args, rows, stream);
  if (packs <= 128) return launch_warps<T, 4, 32, kBackward>(args, rows, stream);
  if constexpr (!std::is_same_v<T, double>) {
    if (params.has_clusters && packs > kRingPacks && launch_softmax_ring<T>(args, rows, kBackward, stream)) return;
  }
  // Blocks of at most 512 threads, as far as clusters go: a larger one has a multiprocessor to itself, which then does
  // nothing but load, or nothing but compute.
  while (params.has_clusters && args.cluster < kLargestCluster && packs > 2048 * args.cluster) args.cluster *= 2;
  if (packs <= 4096 * args.cluster) {
    const std::int64_t each = (packs + args.cluster * 4 - 1) / (args.cluster * 4);
    const int threads = static_cast<int>((each + 31) / 32 * 32);
    return launch_blocks<T, 4, kBackward>(args, rows, threads, stream);
  }
  const int most = params.has_clusters ? kLargestCluster : 1;
  while (args.cluster < most && packs > 1024 * kMaximum * args.cluster) args.cluster *= 2;
  if (packs <= 1024 * kMaximum * args.cluster) return launch_blocks<T, kMaximum, kBackward>(args, rows, 1024, stream);
  launch_blocks<T, 0, kBackward>(args, rows, 1024, stream);
}

}  // namespace

bool softmax_rows_fit(const SoftmaxParams& params) {
  const int bytes = tile::element_bytes(params.type);
  const int width = 16 / bytes;
  if (params.within.rank != 1) return false;
  for (int t = 0; t < 3; ++t) {
    if (params.within.dims[0] > 1 && params.within.strides[t][0] != 1) return false;
    // Packs are cut at the same elements of each tensor.
    for (int i = 0; i < params.between.rank; ++i) {
      if ((params.between.strides[t][i] - params.between.strides[0][i]) % width != 0) return false;
    }
  }
  const auto skew = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16; };
  return skew(params.a) == skew(params.b) && skew(params.a) == skew(params.out);
}

void launch_softmax_rows(const SoftmaxParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    tile::for_each_piece(params.between, tile::kMaxIterations / kLargestCluster, {},
                         [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                           SoftmaxArgs<T> args = softmax_args<T>(params);
                           args.a += offsets[0];
                           args.b += offsets[1];
                           args.out += offsets[2];
                           const tile::LoopNest<3> rows(piece);
                           if (params.backward) {
                             launch_piece<T, true>(params, args, rows, stream);
                           } else {
                             launch_piece<T, false>(params, args, rows, stream);
                           }
                         });
  });
}

}  // namespace gpudnn::kernels
