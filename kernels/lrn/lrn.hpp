// What the launch functions of local response and divisive normalization take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/element_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// s = k + weight * sum of z^2 over the window; y = z * s^-exponent.
struct LrnParams {
  tile::ElementType type = tile::ElementType::f32;
  bool backward = false;
  double alpha = 1;
  double beta = 0;
  std::int32_t n = 5;
  std::int32_t before = 2;  // elements of a window before its own
  double weight = 0;
  double exponent = 0.75;
  double k = 2;
  const void* x = nullptr;
  const void* means = nullptr;  // divisive normalization; may be null
  const void* dy = nullptr;
  void* temp = nullptr;
  void* temp2 = nullptr;
  void* out = nullptr;
  void* means_gradient = nullptr;  // may be null
  // Across channels. The tensors are x, dy, out (forward x, x, y).
  std::int64_t channels = 0;
  std::int64_t channel_strides[3] = {};
  tile::HostNest pixels;  // everything but the channels
  int multiprocessors = 1;
  // Divisive normalization: strides of image, channel, depth, height, width; x, means, dy and the scratch share theirs.
  std::int64_t dims[5] = {1, 1, 1, 1, 1};
  std::int64_t x_strides[5] = {};
  std::int64_t out_strides[5] = {};
};

// Five channels in a window, channels innermost in whole packs of 16 bytes; f32, f16, bf16.
[[nodiscard]] bool lrn_rows_fit(const LrnParams& params);
void launch_lrn_rows(const LrnParams& params, CUstream_st* stream);

// Five channels in a window, any strides, best where neighbouring pixels are contiguous in packs of four; f32, f16,
// bf16.
[[nodiscard]] bool lrn_columns_fit(const LrnParams& params);
void launch_lrn_columns(const LrnParams& params, CUstream_st* stream);

// Across channels, any window, any strides.
void launch_lrn_ring(const LrnParams& params, CUstream_st* stream);

// Divisive normalization.
void launch_lrn_spatial(const LrnParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
