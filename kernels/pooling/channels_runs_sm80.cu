// Instances and launch of averages of step 1 over packs of channels, and of their gradient.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/pooling/channels_runs_sm80.cuh"
#include "kernels/pooling/launch_args.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

constexpr std::int32_t kInnerPacks = 8;  // 128 bytes of a pixel: a line of the L1
constexpr std::int64_t kLongestStrip = 32;

// The strip with which the rounds of blocks do the fewest rows one after the other.
std::int32_t strip_for(std::int64_t rows, std::int64_t threads_of_row, std::int64_t multiprocessors) {
  constexpr std::int64_t kBeside = 3;  // the two rows before a strip's first window, and a thread's beginning
  std::int64_t best = 1, least = INT64_MAX;
  for (std::int64_t strip = 1; strip <= tile::least(rows, kLongestStrip); ++strip) {
    const std::int64_t blocks = parts(threads_of_row * parts(rows, strip), kChannelsRunsThreads);
    const std::int64_t work = parts(blocks, multiprocessors * kChannelsRunsBlocks) * (strip + kBeside);
    if (work < least) {
      least = work;
      best = strip;
    }
  }
  return static_cast<std::int32_t>(best);
}

template <class T>
void launch(const PoolingParams& params, cudaStream_t stream) {
  const WindowShape& shape = params.shape;
  const bool gradient = params.backward;
  ChannelsRunsArgs<T> args = {};
  args.in = static_cast<const T*>(gradient ? params.dy : params.x);
  args.out = static_cast<T*>(params.out);
  args.alpha = static_cast<float>(params.alpha);
  args.beta = static_cast<float>(params.beta);
  args.gradient = gradient;
  args.count_padding = params.mode == PoolingMode::average_with_padding;
  for (int i = 0; i < 2; ++i) args.pad[i] = gradient ? 2 - shape.pad[1 + i] : shape.pad[1 + i];
  const std::int32_t(&in)[3] = gradient ? shape.y : shape.x;
  const std::int32_t(&out)[3] = gradient ? shape.x : shape.y;
  args.high = in[1];
  args.wide = in[2];
  args.out_high = out[1];
  args.out_wide = out[2];
  take_strides(gradient ? params.dy_strides : params.x_strides, args.in_strides);
  take_strides(params.out_strides, args.out_strides);
  const std::int64_t packs = params.channels / tile::kPackWidth<T>;
  args.inner = static_cast<std::int32_t>(packs % kInnerPacks == 0 ? kInnerPacks : packs);
  const std::int64_t groups = packs / args.inner;
  const std::int64_t threads_of_row = params.images * packs * args.out_wide;
  args.strip = strip_for(args.out_high, threads_of_row, params.multiprocessors);
  const std::int64_t strips = parts(args.out_high, args.strip);
  args.by_inner = tile::FastDivmod(static_cast<std::uint32_t>(args.inner));
  args.by_columns = tile::FastDivmod(static_cast<std::uint32_t>(args.out_wide));
  args.by_groups = tile::FastDivmod(static_cast<std::uint32_t>(groups));
  args.by_strips = tile::FastDivmod(static_cast<std::uint32_t>(strips));
  args.count = static_cast<std::uint32_t>(threads_of_row * strips);
  const auto blocks = static_cast<unsigned>(parts(args.count, kChannelsRunsThreads));
  cuda::launch_kernel(pooling_channels_runs<T>, {blocks, kChannelsRunsThreads}, stream, args);
}

}  // namespace

bool pooling_channels_runs_fit(const PoolingParams& params) {
  return params.mode != PoolingMode::max && params.shape.window[1] == 3 && params.shape.stride[1] == 1;
}

void launch_pooling_channels_runs(const PoolingParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) launch<T>(params, stream);
  });
}

}  // namespace gpudnn::kernels
