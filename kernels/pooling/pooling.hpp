// What the launch functions of the pooling kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/pooling/window_index.hpp"
#include "kernels/tile/element_type.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

enum class PoolingMode : std::int32_t { max, average_with_padding, average_without_padding };

// Strides in elements of a tensor with the dimensions n, c, depth, height, width (missing ones have extent 1).
struct PoolingStrides {
  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int64_t spatial[3] = {};
};

// Forward: out is y. Backward: out is dx, and y is not read: what the windows chose is found again from x, by the same
// rule (the first maximum in row-major order).
struct PoolingParams {
  tile::ElementType type = tile::ElementType::f32;
  bool backward = false;
  PoolingMode mode = PoolingMode::max;
  bool propagate_nan = false;
  double alpha = 1;
  double beta = 0;
  const void* x = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
  std::int64_t images = 0;
  std::int64_t channels = 0;
  // For planes_fixed: elements from a pixel to the next. 1 says packed NCHW; the channels, packed NHWC.
  std::int64_t interleaved = 1;
  WindowShape shape;
  PoolingStrides x_strides;
  PoolingStrides dy_strides;
  PoolingStrides out_strides;
  int multiprocessors = 1;
  std::size_t shared_memory = 0;  // bytes that a block may ask for
};

// A thread for each element of the output, or for a pack of channels of it; any strides.
void launch_pooling_windows(const PoolingParams& params, CUstream_st* stream);

// All tensors packed, NCHW or NHWC, and one of the usual windows in two dimensions (has_fixed_window).
[[nodiscard]] bool pooling_planes_fixed_fit(const PoolingParams& params);
void launch_pooling_planes_fixed(const PoolingParams& params, CUstream_st* stream);

// Of those, the gradient of a maximum over windows 3x3 with step 2 and padding 1: even 16-bit planes, or images with
// three channels, rows in packs of 8 pixels up to 256, alpha 1, beta 0, NaNs passed over.
[[nodiscard]] bool pooling_planes_pairs_fit(const PoolingParams& params);
void launch_pooling_planes_pairs(const PoolingParams& params, CUstream_st* stream);

// The same of floats: rows in packs of 4 pixels that fill warps.
[[nodiscard]] bool pooling_planes_floats_fit(const PoolingParams& params);
void launch_pooling_planes_floats(const PoolingParams& params, CUstream_st* stream);

// And the maximum over windows 3x3 with step 2 of 16-bit elements: rows in packs of 8 pixels with padding 1, of planes
// or of images with three channels; or rows of planes that begin anywhere, not padded, with windows in fours.
[[nodiscard]] bool pooling_planes_direct_fit(const PoolingParams& params);
void launch_pooling_planes_direct(const PoolingParams& params, CUstream_st* stream);

// Channels innermost in packs of 16 bytes, and one of the usual windows.
[[nodiscard]] bool pooling_channels_fixed_fit(const PoolingParams& params);
void launch_pooling_channels_fixed(const PoolingParams& params, CUstream_st* stream);

// Of those, averages of step 1 and their gradient.
[[nodiscard]] bool pooling_channels_runs_fit(const PoolingParams& params);
void launch_pooling_channels_runs(const PoolingParams& params, CUstream_st* stream);

// All tensors packed NCHW, and a plane (an image of one channel) of each fits into shared memory.
[[nodiscard]] bool pooling_planes_fit(const PoolingParams& params);
void launch_pooling_planes(const PoolingParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
