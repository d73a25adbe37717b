// Instances and launch of pooling with the usual windows over packs of channels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/channels_fixed_sm80.cuh"
#include "kernels/pooling/launch_args.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr std::int32_t kMaxTilePacks = 16;  // 256 contiguous bytes of a pixel, and windows abreast that share columns

std::int32_t power_above(std::int64_t value, std::int32_t most) {
  std::int32_t power = 1;
  while (power < value && power < most) power *= 2;
  return power;
}
// The strips or tiles, and how their numbers fall apart. Returns their count.
template <class T>
std::int64_t cut_up(const PoolingParams& params, ChannelsFixedArgs<T>* args) {
  const WindowShape& shape = params.shape;
  std::int64_t packs = args->channel_packs, columns = args->windows_wide, rows = parts(args->windows_high, kStrip);
  if (params.backward) {
    const std::int32_t halo = (shape.window[1] + shape.stride[1] - 1) / shape.stride[1] - 1;
    args->packs = power_above(args->channel_packs, kMaxTilePacks);
    const std::int32_t wide = power_above(args->blocks_wide + halo, kChannelsThreads / args->packs);
    args->group = args->packs * wide;
    args->tile_columns = wide - halo;
    const std::int64_t tiles_high = parts(args->blocks_high, kTileRows - halo);
    args->tile_rows = static_cast<std::int32_t>(parts(args->blocks_high, tiles_high));
    packs = parts(args->channel_packs, args->packs);
    columns = parts(args->blocks_wide, args->tile_columns);
    rows = parts(args->blocks_high, args->tile_rows);
  }
  args->by_packs = tile::FastDivmod(static_cast<std::uint32_t>(packs));
  args->by_columns = tile::FastDivmod(static_cast<std::uint32_t>(columns));
  args->by_rows = tile::FastDivmod(static_cast<std::uint32_t>(rows));
  return packs * columns * rows * params.images;
}

template <class T>
ChannelsFixedArgs<T> channels_args(const PoolingParams& params, std::int64_t* count) {
  ChannelsFixedArgs<T> args = {};
  take_fixed_window(params, &args);
  args.channel_packs = static_cast<std::int32_t>(params.channels / tile::kPackWidth<T>);
  take_strides(params.x_strides, args.x_strides);
  take_strides(params.dy_strides, args.dy_strides);
  take_strides(params.out_strides, args.out_strides);
  *count = cut_up(params, &args);
  args.count = static_cast<std::uint32_t>(*count);
  return args;
}

template <class T, int kWindow, int kStride, bool kMax, bool kNan>
void launch_pass(const PoolingParams& params, cudaStream_t stream) {
  std::int64_t count = 0;
  const ChannelsFixedArgs<T> args = channels_args<T>(params, &count);
  if (params.backward) {
    const auto blocks = static_cast<unsigned>(parts(count, kChannelsThreads / args.group));
    pooling_channels_fixed_backward<T, kWindow, kStride, kMax, kNan><<<blocks, kChannelsThreads, 0, stream>>>(args);
  } else {
    const auto blocks = static_cast<unsigned>(parts(count, kChannelsThreads));
    pooling_channels_fixed_forward<T, kWindow, kStride, kMax, kNan><<<blocks, kChannelsThreads, 0, stream>>>(args);
  }
}

template <class T, int kWindow, int kStride>
void launch_mode(const PoolingParams& params, cudaStream_t stream) {
  if constexpr (kStride != 1) {  // averages of step 1: channels_runs_sm80.cuh
    if (params.mode != PoolingMode::max) return launch_pass<T, kWindow, kStride, false, false>(params, stream);
  }
  if (params.propagate_nan) return launch_pass<T, kWindow, kStride, true, true>(params, stream);
  launch_pass<T, kWindow, kStride, true, false>(params, stream);
}

}  // namespace

bool pooling_channels_fixed_fit(const PoolingParams& params) {
  if (params.type == tile::ElementType::f64 || !has_fixed_window(params.shape)) return false;
  const int width = 16 / tile::element_bytes(params.type);
  const auto fits = [width](const PoolingStrides& strides, const void* pointer) {
    return strides.c == 1 && strides.n % width == 0 && strides.spatial[1] % width == 0 &&
           strides.spatial[2] % width == 0 && tile::is_aligned(pointer, 16);
  };
  if (params.channels % width != 0 || !fits(params.out_strides, params.out)) return false;
  if (params.backward && !fits(params.dy_strides, params.dy)) return false;
  const bool reads_x = !params.backward || params.mode == PoolingMode::max;
  if (reads_x && !fits(params.x_strides, params.x)) return false;
  // A thread's number and coordinates take 31 bits.
  const WindowShape& shape = params.shape;
  const std::int64_t most = tile::kMaxIterations;
  if (params.channels > most || shape.x[1] > most / 4 || shape.x[2] > most / 4) return false;
  const auto cells = static_cast<double>(shape.x[1] + 8) * (shape.x[2] + 8);
  return cells * static_cast<double>(params.images) * static_cast<double>(params.channels / width + 16) <
         static_cast<double>(most);
}

void launch_pooling_channels_fixed(const PoolingParams& params, CUstream_st* stream) {
  if (pooling_channels_runs_fit(params)) return launch_pooling_channels_runs(params, stream);
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const std::int32_t window = params.shape.window[1], step = params.shape.stride[1];
      if (window == 2) return launch_mode<T, 2, 2>(params, stream);
      if (step == 2) return launch_mode<T, 3, 2>(params, stream);
      launch_mode<T, 3, 1>(params, stream);
    }
  });
}

}  // namespace gpudnn::kernels
