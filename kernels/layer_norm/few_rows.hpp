// dscale and dbias of few rows. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/layer_norm.hpp"

namespace gpudnn::kernels {

// Up to so many rows it is faster to read x and dy once more, from L2, than to leave each cluster's part of dscale and
// dbias in memory: they are as large as x and dy, or larger.
constexpr std::int64_t kLnFewRows = 256;

struct LayerNormFewRows {
  const void* x = nullptr;
  const void* dy = nullptr;
  tile::AnyType type = tile::AnyType::f32;  // of both: float or a half
  LayerNormTensor mean;                     // null: RMS
  LayerNormTensor inverse;
  LayerNormTensor dscale, dbias;                                      // contiguous, or null
  std::int64_t length = 0;                                            // columns, in whole packs of 16 bytes
  std::int64_t x_row = 0, dy_row = 0, mean_row = 0, inverse_row = 0;  // strides
  int rows = 0;
};

// Behind a kernel that reads the same and lets its dependents go: beside it, if the device can.
void launch_layer_norm_few_rows(const LayerNormFewRows& args, CUstream_st* stream);

}  // namespace gpudnn::kernels
