// The last step of the backward pass: dscale and dbias from the parts that blocks left. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/layer_norm.hpp"

namespace gpudnn::kernels {

struct LayerNormFinish {
  const float* partials = nullptr;  // [sample][part][dscale, dbias][column]
  std::int64_t length = 0;          // columns
  int parts = 0;
  LayerNormTensor dscale;  // contiguous columns
  LayerNormTensor dbias;
  int samples = 1;
  std::int64_t dscale_sample = 0;  // strides
  std::int64_t dbias_sample = 0;
};

void launch_layer_norm_finish(const LayerNormFinish& args, CUstream_st* stream);

}  // namespace gpudnn::kernels
