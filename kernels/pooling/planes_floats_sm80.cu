// Instances and launch of the gradient of the usual maximum in planes of floats.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/planes_floats_sm80.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr std::int32_t kMaxWarpPacks = 31;  // one lane more lends
constexpr std::int64_t kShortestStrip = 6;
constexpr std::int64_t kEnoughWarps = 24;  // on a multiprocessor

std::int32_t warps_of_row(std::int32_t packs) { return (packs + kMaxWarpPacks - 1) / kMaxWarpPacks; }

template <int kChannels>
void launch(const PoolingParams& params, cudaStream_t stream) {
  FloatsArgs args = {};
  args.x = static_cast<const float*>(params.x);
  args.dy = static_cast<const float*>(params.dy);
  args.out = static_cast<float*>(params.out);
  args.row_packs = static_cast<std::int32_t>(params.shape.x[2] / 4);
  args.windows_high = static_cast<std::int32_t>(params.shape.y[1]);
  const std::int32_t row_warps = warps_of_row(args.row_packs);
  args.warp_packs = (args.row_packs + row_warps - 1) / row_warps;
  const std::int64_t rows = params.images * params.channels / kChannels * row_warps;
  // A strip repeats a row of windows: no more of them than the multiprocessors need.
  const std::int64_t enough = kEnoughWarps * params.multiprocessors;
  std::int64_t strips = 1;
  while (rows * strips < enough && args.windows_high / (strips + 1) >= kShortestStrip) ++strips;
  args.strip = static_cast<std::int32_t>((args.windows_high + strips - 1) / strips);
  strips = (args.windows_high + args.strip - 1) / args.strip;
  args.by_row_warps = tile::FastDivmod(static_cast<std::uint32_t>(row_warps));
  args.by_strips = tile::FastDivmod(static_cast<std::uint32_t>(strips));
  args.warps = static_cast<std::uint32_t>(rows * strips);
  const unsigned blocks = (args.warps + kFloatsThreads / 32 - 1) / (kFloatsThreads / 32);
  pooling_planes_floats<kChannels><<<blocks, kFloatsThreads, 0, stream>>>(args);
}

}  // namespace

bool pooling_planes_floats_fit(const PoolingParams& params) {
  const WindowShape& shape = params.shape;
  if (!params.backward || params.mode != PoolingMode::max || params.propagate_nan) return false;
  if (params.type != tile::ElementType::f32 || params.alpha != 1 || params.beta != 0) return false;
  if (params.interleaved != 1 && params.interleaved != 3) return false;
  for (int i = 1; i < 3; ++i) {
    if (shape.window[i] != 3 || shape.stride[i] != 2 || shape.pad[i] != 1 || shape.x[i] != 2 * shape.y[i]) return false;
  }
  const bool aligned =
      tile::is_aligned(params.x, 16) && tile::is_aligned(params.dy, 8) && tile::is_aligned(params.out, 16);
  // Most lanes are to have work.
  const std::int64_t packs = shape.x[2] / 4;
  if (!aligned || shape.x[2] % 4 != 0 || packs > tile::kMaxIterations / 4) return false;
  const std::int64_t row_warps = warps_of_row(static_cast<std::int32_t>(packs));
  return packs * 4 >= row_warps * 96 && 3 * shape.x_plane() < tile::kMaxIterations &&
         params.images * params.channels * row_warps * shape.y[1] < tile::kMaxIterations;
}

void launch_pooling_planes_floats(const PoolingParams& params, CUstream_st* stream) {
  if (params.interleaved == 1) return launch<1>(params, stream);
  launch<3>(params, stream);
}

}  // namespace gpudnn::kernels
