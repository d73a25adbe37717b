// Instances and launch of the usual maximum of 16-bit elements straight from global memory.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/planes_direct_sm80.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {
namespace {

template <class T, int kChannels, bool kNan>
void launch_kernel(const PoolingParams& params, cudaStream_t stream) {
  const WindowShape& shape = params.shape;
  DirectArgs<T> args = {};
  args.x = static_cast<const T*>(params.x);
  args.out = static_cast<T*>(params.out);
  args.alpha = static_cast<float>(params.alpha);
  args.beta = static_cast<float>(params.beta);
  args.plain = params.alpha == 1 && params.beta == 0;
  args.pad = shape.pad[1];
  args.height = shape.x[1];
  args.width = shape.x[2];
  args.x_packs = params.images * params.channels * shape.x_plane() / 8;
  const std::int64_t fours = shape.y[2] / 4;
  const std::int64_t planes = params.images * params.channels / params.interleaved;
  args.by_fours = tile::FastDivmod(static_cast<std::uint32_t>(fours));
  args.by_rows = tile::FastDivmod(static_cast<std::uint32_t>(shape.y[1]));
  args.units = static_cast<std::uint32_t>(planes * shape.y[1] * fours);
  const auto blocks = static_cast<unsigned>((args.units + kDirectThreads - 1) / kDirectThreads);
  if constexpr (kChannels == 0) {
    pooling_planes_skewed<T, kNan><<<blocks, kDirectThreads, 0, stream>>>(args);
  } else {
    pooling_planes_direct<T, kChannels, kNan><<<blocks, kDirectThreads, 0, stream>>>(args);
  }
}

template <class T, int kChannels>
void launch_channels(const PoolingParams& params, cudaStream_t stream) {
  if (params.propagate_nan) return launch_kernel<T, kChannels, true>(params, stream);
  launch_kernel<T, kChannels, false>(params, stream);
}

template <class T>
void launch(const PoolingParams& params, cudaStream_t stream) {
  if (params.shape.pad[2] == 0) return launch_channels<T, 0>(params, stream);
  if (params.interleaved == 1) return launch_channels<T, 1>(params, stream);
  launch_channels<T, 3>(params, stream);
}

}  // namespace

bool pooling_planes_direct_fit(const PoolingParams& params) {
  const WindowShape& shape = params.shape;
  if (params.backward || params.mode != PoolingMode::max || tile::element_bytes(params.type) != 2) return false;
  if (params.interleaved != 1 && params.interleaved != 3) return false;
  if (shape.window[1] != 3 || shape.stride[1] != 2 || !tile::is_aligned(params.x, 16)) return false;
  if (!tile::is_aligned(params.out, 8)) return false;
  const std::int64_t elements = params.images * params.channels * shape.x_plane();
  if (elements >= tile::kMaxIterations) return false;
  if (shape.pad[2] == 1) return shape.x[2] % 8 == 0 && shape.y[2] == shape.x[2] / 2;
  const bool all_inside = shape.pad[2] == 0 && 2 * (shape.y[2] - 1) + 3 <= shape.x[2];
  return all_inside && params.interleaved == 1 && shape.y[2] % 4 == 0 && elements % 8 == 0;
}

void launch_pooling_planes_direct(const PoolingParams& params, CUstream_st* stream) {
  if (params.type == tile::ElementType::f16) return launch<tile::Half>(params, stream);
  launch<tile::BFloat16>(params, stream);
}

}  // namespace gpudnn::kernels
