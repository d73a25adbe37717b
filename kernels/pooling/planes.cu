// Instances and launch of the pooling kernels that work plane by plane.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/launch_args.cuh"
#include "kernels/pooling/planes.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kGroupBytes = 24 * 1024;  // of shared memory for a group of small planes: several blocks at once

std::int64_t rounded(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

// Shared memory for a group of planes: each array with room to begin anywhere between two 16-byte boundaries.
struct SharedBytes {
  std::int64_t dy = 0;
  std::int64_t x = 0;
  std::int64_t choices = 0;
  [[nodiscard]] std::int64_t total() const { return dy + x + choices; }
};
SharedBytes shared_bytes(const PoolingParams& params, std::int64_t group) {
  const int bytes = tile::element_bytes(params.type);
  SharedBytes shared;
  if (params.backward) {
    shared.dy = rounded(group * params.shape.y_plane() * bytes) + 16;
    if (params.mode == PoolingMode::max) shared.choices = rounded(group * params.shape.y_plane() * 4);
  }
  if (!params.backward || params.mode == PoolingMode::max) {
    shared.x = rounded(group * params.shape.x_plane() * bytes) + 16;
  }
  return shared;
}

template <class T>
void launch_kernel(void (*kernel)(PlaneArgs<T>), const PlaneArgs<T>& args, std::int64_t bytes, cudaStream_t stream) {
  if (bytes > 48 * 1024) {
    (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  }
  const std::int64_t blocks = (args.planes + args.group - 1) / args.group;
  kernel<<<static_cast<unsigned>(blocks), kPlaneThreads, static_cast<std::size_t>(bytes), stream>>>(args);
}

// The instance of an averaging kernel, or of a maximum with or without NaN.
#define GPUDNN_POOLING_INSTANCE(params, kernel, ...)                     \
  ((params).mode != PoolingMode::max ? kernel<__VA_ARGS__, false, false> \
   : (params).propagate_nan          ? kernel<__VA_ARGS__, true, true>   \
                                     : kernel<__VA_ARGS__, true, false>)

template <class T>
void (*select_kernel(const PoolingParams& params))(PlaneArgs<T>) {
  if (params.backward) return GPUDNN_POOLING_INSTANCE(params, pooling_planes_backward, T);
  return GPUDNN_POOLING_INSTANCE(params, pooling_planes_forward, T);
}
#undef GPUDNN_POOLING_INSTANCE

template <class T>
PlaneArgs<T> plane_args(const PoolingParams& params) {
  PlaneArgs<T> args = {};
  take_window(params, &args);
  args.planes = params.images * params.channels;
  const WindowShape& shape = params.shape;
  const std::int32_t rows = params.backward ? shape.x[1] : shape.y[1];
  args.chunks = (rows + kColumn - 1) / kColumn;
  args.by_chunks = tile::FastDivmod(static_cast<std::uint32_t>(args.chunks));
  args.by_depth = tile::FastDivmod(static_cast<std::uint32_t>(shape.y[0]));
  args.by_height = tile::FastDivmod(static_cast<std::uint32_t>(shape.y[1]));
  args.by_width = tile::FastDivmod(static_cast<std::uint32_t>(shape.y[2]));
  args.warp_for_window = static_cast<std::int64_t>(shape.window[0]) * shape.window[1] * shape.window[2] >= 128;
  return args;
}

}  // namespace

bool pooling_planes_fit(const PoolingParams& params) {
  // Two blocks should fit on a multiprocessor, and a window's count of elements into 31 bits.
  return params.shape.x_plane() < (1 << 20) && params.shape.y_plane() < (1 << 20) &&
         shared_bytes(params, 1).total() <= static_cast<std::int64_t>(params.shared_memory) / 2 &&
         params.images * params.channels < tile::kMaxIterations;
}

void launch_pooling_planes(const PoolingParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    PlaneArgs<T> args = plane_args<T>(params);
    // As many planes as make a block's copy worth while, but blocks for all multiprocessors.
    const std::int64_t by_bytes = kGroupBytes / shared_bytes(params, 1).total();
    const std::int64_t by_blocks = args.planes / (4 * params.multiprocessors);
    args.group = static_cast<std::int32_t>(tile::clamp<std::int64_t>(tile::least(by_bytes, by_blocks), 1, 256));
    const SharedBytes shared = shared_bytes(params, args.group);
    args.dy_bytes = static_cast<std::int32_t>(shared.dy);
    args.x_bytes = static_cast<std::int32_t>(shared.x);
    launch_kernel<T>(select_kernel<T>(params), args, shared.total(), stream);
  });
}

}  // namespace gpudnn::kernels
