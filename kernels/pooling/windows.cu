// Instances and launch of the pooling kernels with a thread for each output.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/launch_args.cuh"
#include "kernels/pooling/windows.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

template <class T>
WindowArgs<T> window_args(const PoolingParams& params, int pack) {
  WindowArgs<T> args;
  take_window(params, &args);
  args.x_strides = params.x_strides;
  args.dy_strides = params.dy_strides;
  args.out_strides = params.out_strides;
  const std::int32_t(&extents)[3] = params.backward ? params.shape.x : params.shape.y;
  const std::int64_t plane = params.backward ? params.shape.x_plane() : params.shape.y_plane();
  args.order.channels_fastest = params.out_strides.c < params.out_strides.spatial[2];
  args.order.count = params.images * (params.channels / pack) * plane;
  args.order.wide = args.order.count > tile::kMaxIterations;
  args.order.channels = tile::FastDivmod(static_cast<std::uint32_t>(params.channels / pack));
  for (int i = 0; i < 3; ++i) args.order.spatial[i] = tile::FastDivmod(static_cast<std::uint32_t>(extents[i]));
  return args;
}

template <class T, int N>
void launch_forward(const PoolingParams& params, const WindowArgs<T>& args, unsigned blocks, cudaStream_t stream) {
  if (params.mode != PoolingMode::max) {
    pooling_windows_forward<T, N, false, false><<<blocks, kWindowThreads, 0, stream>>>(args);
  } else if (params.propagate_nan) {
    pooling_windows_forward<T, N, true, true><<<blocks, kWindowThreads, 0, stream>>>(args);
  } else {
    pooling_windows_forward<T, N, true, false><<<blocks, kWindowThreads, 0, stream>>>(args);
  }
}

template <class T, int N>
void launch_split(const PoolingParams& params, const WindowArgs<T>& args, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((args.order.count + kSplitLanes - 1) / kSplitLanes);
  if (params.mode != PoolingMode::max) {
    pooling_windows_split<T, N, false, false><<<blocks, kWindowThreads, 0, stream>>>(args);
  } else if (params.propagate_nan) {
    pooling_windows_split<T, N, true, true><<<blocks, kWindowThreads, 0, stream>>>(args);
  } else {
    pooling_windows_split<T, N, true, false><<<blocks, kWindowThreads, 0, stream>>>(args);
  }
}

template <class T, int N>
void launch(const PoolingParams& params, cudaStream_t stream) {
  const WindowArgs<T> args = window_args<T>(params, N);
  // Too few outputs to fill the device with a thread each, and work to share in every one.
  if (!params.backward && args.volume >= 2 * kSplitRows && args.order.count < 1024 * params.multiprocessors) {
    return launch_split<T, N>(params, args, stream);
  }
  const auto blocks = static_cast<unsigned>((args.order.count + kWindowThreads - 1) / kWindowThreads);
  if (!params.backward) {
    return launch_forward<T, N>(params, args, blocks, stream);
  }
  if (params.mode != PoolingMode::max) {
    pooling_windows_backward<T, N, false, false><<<blocks, kWindowThreads, 0, stream>>>(args);
  } else if (params.propagate_nan) {
    pooling_windows_backward<T, N, true, true><<<blocks, kWindowThreads, 0, stream>>>(args);
  } else {
    pooling_windows_backward<T, N, true, false><<<blocks, kWindowThreads, 0, stream>>>(args);
  }
}

// Channels innermost in every tensor that is touched, in whole packs.
bool channels_pack(const PoolingParams& params, int width) {
  const auto fits = [width](const PoolingStrides& strides, const void* pointer) {
    return strides.c == 1 && strides.n % width == 0 && strides.spatial[0] % width == 0 &&
           strides.spatial[1] % width == 0 && strides.spatial[2] % width == 0 && tile::is_aligned(pointer, 16);
  };
  if (params.channels % width != 0 || !fits(params.out_strides, params.out)) return false;
  if (params.backward && !fits(params.dy_strides, params.dy)) return false;
  const bool reads_x = !params.backward || params.mode == PoolingMode::max;
  return !reads_x || fits(params.x_strides, params.x);
}

}  // namespace

void launch_pooling_windows(const PoolingParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    constexpr int N = tile::kPackWidth<T>;
    if (channels_pack(params, N)) {
      launch<T, N>(params, stream);
    } else {
      launch<T, 1>(params, stream);
    }
  });
}

}  // namespace gpudnn::kernels
