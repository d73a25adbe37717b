// From the launch functions' plain data to what the arguments of pooling's kernels have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/pooling.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

inline std::int64_t parts(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// In two dimensions.
inline void take_strides(const PoolingStrides& from, std::int64_t (&to)[3]) {
  to[0] = from.n;
  to[1] = from.spatial[1];
  to[2] = from.spatial[2];
}

template <class T, template <class> class Args>
void take_tensors(const PoolingParams& params, Args<T>* args) {
  using C = tile::Compute<T>;
  args->x = static_cast<const T*>(params.x);
  args->dy = static_cast<const T*>(params.dy);
  args->out = static_cast<T*>(params.out);
  args->alpha = static_cast<C>(params.alpha);
  args->beta = static_cast<C>(params.beta);
  args->count_padding = params.mode == PoolingMode::average_with_padding;
}

// Of any window: the same, its shape and its volume, and whether all windows lie inside the padded image.
template <class T, template <class> class Args>
void take_window(const PoolingParams& params, Args<T>* args) {
  take_tensors(params, args);
  args->shape = params.shape;
  args->whole = has_whole_windows(params.shape);
  args->volume = 1;
  for (const std::int32_t extent : params.shape.window) args->volume *= extent;
}

// Of the usual windows: the same, and the image in windows and in blocks of stride x stride.
template <class T, template <class> class Args>
void take_fixed_window(const PoolingParams& params, Args<T>* args) {
  const WindowShape& shape = params.shape;
  take_tensors(params, args);
  args->plain = params.alpha == 1 && params.beta == 0;
  for (int i = 0; i < 2; ++i) args->pad[i] = shape.pad[1 + i];
  args->height = shape.x[1];
  args->width = shape.x[2];
  args->windows_high = shape.y[1];
  args->windows_wide = shape.y[2];
  args->blocks_high = (shape.x[1] - 1 + shape.pad[1]) / shape.stride[1] + 1;
  args->blocks_wide = (shape.x[2] - 1 + shape.pad[2]) / shape.stride[2] + 1;
}

}  // namespace gpudnn::kernels
