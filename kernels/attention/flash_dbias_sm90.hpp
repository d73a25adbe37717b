// What flash_dbias_sm90's kernel is told, and its launch function. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_dbias_sm80.hpp"
#include "kernels/tile/tensor_map.hpp"

namespace gpudnn::kernels {

constexpr std::int32_t kFlashDbiasWideTile = 128;  // rows and columns

struct FlashDbiasWideParams {
  FlashDbiasParams its;  // visits of batches and heads alone
  tile::TensorMap q, k, v, d_o;
  bool has_bias = false;
  bool bias_has_batches = false;  // else one for all
  bool bias_has_heads = false;
  tile::TensorMap bias;
};

// dim is 64 or 128. With the sums of the splits.
void launch_flash_dbias_sm90(const FlashDbiasWideParams& params, int dim, CUstream_st* stream);

}  // namespace gpudnn::kernels
