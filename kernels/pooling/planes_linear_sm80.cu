// Instances and launch of averages of step 1 over planes as a line of elements.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/planes_linear_sm80.cuh"
#include "kernels/pooling/planes_linear_sm80.hpp"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {
namespace {

template <class T>
void launch(const PoolingParams& params, cudaStream_t stream) {
  const WindowShape& shape = params.shape;
  LinearArgs<T> args = {};
  args.x = static_cast<const T*>(params.x);
  args.out = static_cast<T*>(params.out);
  args.alpha = static_cast<float>(params.alpha);
  args.beta = static_cast<float>(params.beta);
  args.count_padding = params.mode == PoolingMode::average_with_padding;
  args.height = shape.x[1];
  args.width = shape.x[2];
  args.packs = static_cast<std::int32_t>(params.images * params.channels * shape.x_plane() / 8);
  const std::int32_t line = kLinearPacks * args.width;
  args.units = (args.packs + line - 1) / line * args.width;
  args.packs_above = (args.width + 7) / 8;
  args.skew_above = args.packs_above * 8 - args.width;
  args.packs_below = args.width / 8;
  args.skew_below = args.width % 8;
  args.by_area = tile::FastDivmod(static_cast<std::uint32_t>(shape.x_plane()));
  args.by_width = tile::FastDivmod(static_cast<std::uint32_t>(args.width));
  constexpr std::int32_t kUnits = kLinearThreads / 32 * kLinearUseful;
  const auto blocks = static_cast<unsigned>((args.units + kUnits - 1) / kUnits);
  pooling_planes_linear<T><<<blocks, kLinearThreads, 0, stream>>>(args);
}

}  // namespace

bool pooling_planes_linear_fit(const PoolingParams& params) {
  const WindowShape& shape = params.shape;
  if (params.backward || params.mode == PoolingMode::max || params.interleaved != 1) return false;
  if (tile::element_bytes(params.type) != 2 || !tile::is_aligned(params.x, 16) || !tile::is_aligned(params.out, 16)) {
    return false;
  }
  for (int i = 1; i < 3; ++i) {
    if (shape.window[i] != 3 || shape.stride[i] != 1 || shape.pad[i] != 1) return false;
  }
  // A row ends once in a pack, and a plane once in 8 rows. Numbers of elements, also of those in the last line of packs
  // that are not there, fit into 31 bits.
  if (shape.x[2] < 9 || shape.x[1] < 8) return false;
  const std::int64_t elements = params.images * params.channels * shape.x_plane();
  return elements % 8 == 0 && elements < tile::kMaxIterations / 4 &&
         std::int64_t{8} * kLinearPacks * shape.x[2] < tile::kMaxIterations / 4;
}

void launch_pooling_planes_linear(const PoolingParams& params, CUstream_st* stream) {
  if (params.type == tile::ElementType::f16) return launch<tile::Half>(params, stream);
  launch<tile::BFloat16>(params, stream);
}

}  // namespace gpudnn::kernels
