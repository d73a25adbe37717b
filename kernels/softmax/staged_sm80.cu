// Instances and launch of softmax over columns through shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/staged_sm80.cuh"
#include "kernels/tile/shared_memory.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kLeastLength = 32;               // four elements for each of 8 warps
constexpr std::int64_t kMaximum = 112 * 1024;  // shared memory of a block: two share a multiprocessor

// The multiples of 256 threads whose blocks share a multiprocessor: 0 where a group is too long. Backward three blocks
// of 256 go before two of 512: 104 us in place of 116 for 64 x 256 x 57 x 57.
template <bool kAligned, bool kBackward>
int staged_threads(std::int64_t length) {
  constexpr std::int64_t kSmall = (kBackward ? 75 : 56) * 1024;
  if (staged_shared<kAligned, kBackward>(length, 256) <= kSmall) return 256;
  return staged_shared<kAligned, kBackward>(length, 512) <= kMaximum ? 512 : 0;
}

template <class T, bool kAligned, bool kBackward>
bool launch(const SoftmaxParams& params, const tile::HostNest& piece, const SoftmaxArgs<T>& args, cudaStream_t stream) {
  const int threads = args.length < kLeastLength ? 0 : staged_threads<kAligned, kBackward>(args.length);
  const int last = piece.rank - 1;
  const std::int64_t line = piece.dims[last];
  const std::int64_t of_line = (line + kStagedPixels - 1) / kStagedPixels;
  const std::int64_t blocks = piece.count() / line * of_line;
  // Lines that leave a quarter of the lanes idle, and too few tiles for the device, go elsewhere.
  if (threads == 0 || line * 4 < of_line * kStagedPixels * 3 || blocks * 2 < params.multiprocessors) return false;
  StagedTiles tiles;
  tiles.of_line = tile::FastDivmod(static_cast<std::uint32_t>(of_line));
  tiles.line = static_cast<std::uint32_t>(line);
  for (int t = 0; t < 3; ++t) tiles.step[t] = params.within.strides[t][0];
  const void* const inputs[2] = {params.a, params.b};
  for (int t = 0; t < 2; ++t) {
    tiles.begin[t] = inputs[t];
    tiles.end[t] = static_cast<const T*>(inputs[t]) + softmax_extent(params, t);
  }
  tile::HostNest lines = piece;
  lines.dims[last] = 1;
  tiles.lines = tile::LoopNest<3>(lines);
  tile::allow_shared_memory<softmax_staged<T, kAligned, kBackward>>(static_cast<int>(kMaximum), true);
  softmax_staged<T, kAligned, kBackward>
      <<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
         static_cast<std::size_t>(staged_shared<kAligned, kBackward>(args.length, threads)), stream>>>(args, tiles);
  return true;
}

}  // namespace

template <class T>
bool launch_softmax_staged(const SoftmaxParams& params, const tile::HostNest& piece, const SoftmaxArgs<T>& args,
                           bool aligned, CUstream_st* stream) {
  if (params.shared_memory < kMaximum) return false;
  if (params.backward) return !aligned && launch<T, false, true>(params, piece, args, stream);
  if (!params.logarithm && !(args.alpha > 0.0f)) return false;
  return aligned ? launch<T, true, false>(params, piece, args, stream)
                 : launch<T, false, false>(params, piece, args, stream);
}
template bool launch_softmax_staged(const SoftmaxParams&, const tile::HostNest&, const SoftmaxArgs<tile::Half>&, bool,
                                    CUstream_st*);
template bool launch_softmax_staged(const SoftmaxParams&, const tile::HostNest&, const SoftmaxArgs<tile::BFloat16>&,
                                    bool, CUstream_st*);

}  // namespace gpudnn::kernels
