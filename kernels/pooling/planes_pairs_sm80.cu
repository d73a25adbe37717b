// Instances and launch of the gradient of the usual maximum in 16-bit planes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/planes_pairs_sm80.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

// A strip repeats a row of windows; where there are not even as many strips as places, it may be shorter.
constexpr std::int64_t kShortestStrip = 6;
constexpr std::int64_t kLeastStrip = 2;

template <class T, int kChannels>
void launch(const PoolingParams& params, cudaStream_t stream) {
  PairsArgs<T> args = {};
  args.x = static_cast<const T*>(params.x);
  args.dy = static_cast<const T*>(params.dy);
  args.out = static_cast<T*>(params.out);
  args.row_packs = static_cast<std::int32_t>(params.shape.x[2] / 8);
  args.windows_high = static_cast<std::int32_t>(params.shape.y[1]);
  args.units_of_warp = 32 / args.row_packs;
  // Strips until the multiprocessors have twice as many warps as they hold, or they grow too short.
  const std::int64_t planes = params.images * params.channels / kChannels;
  const std::int64_t enough = std::int64_t{60} * params.multiprocessors * args.units_of_warp;
  std::int64_t strips = 1;
  const auto shortest = [&] { return planes * strips < enough / 6 ? kLeastStrip : kShortestStrip; };
  while (planes * strips < enough && args.windows_high / (strips + 1) >= shortest()) ++strips;
  args.strip = static_cast<std::int32_t>((args.windows_high + strips - 1) / strips);
  strips = (args.windows_high + args.strip - 1) / args.strip;
  args.by_strips = tile::FastDivmod(static_cast<std::uint32_t>(strips));
  args.units = static_cast<std::uint32_t>(planes * strips);
  const std::int64_t units_of_block = args.units_of_warp * (kPairsThreads / 32);
  const auto blocks = static_cast<unsigned>((args.units + units_of_block - 1) / units_of_block);
  pooling_planes_pairs<T, kChannels><<<blocks, kPairsThreads, 0, stream>>>(args);
}

}  // namespace

bool pooling_planes_pairs_fit(const PoolingParams& params) {
  const WindowShape& shape = params.shape;
  if (!params.backward || params.mode != PoolingMode::max || params.propagate_nan) {
    return false;
  }
  if (params.interleaved != 1 && params.interleaved != 3) return false;
  if (tile::element_bytes(params.type) != 2 || params.alpha != 1 || params.beta != 0) return false;
  for (int i = 1; i < 3; ++i) {
    if (shape.window[i] != 3 || shape.stride[i] != 2 || shape.pad[i] != 1 || shape.x[i] != 2 * shape.y[i]) return false;
  }
  const bool aligned =
      tile::is_aligned(params.x, 16) && tile::is_aligned(params.dy, 8) && tile::is_aligned(params.out, 16);
  // A row of threads is in one warp; units, and packs within a plane, count in 31 bits.
  return aligned && shape.x[2] % 8 == 0 && shape.x[2] <= 256 && 3 * shape.x_plane() < tile::kMaxIterations &&
         params.images * params.channels * shape.y[1] < tile::kMaxIterations;
}

void launch_pooling_planes_pairs(const PoolingParams& params, CUstream_st* stream) {
  const bool planes = params.interleaved == 1;
  if (params.type == tile::ElementType::f16) {
    return planes ? launch<tile::Half, 1>(params, stream) : launch<tile::Half, 3>(params, stream);
  }
  planes ? launch<tile::BFloat16, 1>(params, stream) : launch<tile::BFloat16, 3>(params, stream);
}

}  // namespace gpudnn::kernels
