// What flash_dbias_sm80's kernels are told, and their launch function. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather_backward.hpp"

namespace gpudnn::kernels {

constexpr std::int32_t kFlashDbiasRows = 64;
constexpr std::int32_t kFlashDbiasColumns = 64;

struct FlashDbiasParams {
  FlashGatherBackwardParams base;  // with lse and delta
  // How many batches, heads, tiles of rows and of columns an element of dBias stands for; 1: itself.
  std::int32_t visits[4] = {1, 1, 1, 1};
  std::int32_t group_v = 1;    // heads of q that share a head of v; base.group: of k
  std::int32_t row_tiles = 1;  // of dBias
  std::int32_t column_tiles = 1;
  std::int32_t splits = 1;    // blocks that share the visits of a tile
  std::int64_t elements = 0;  // of dBias
  float* partial = nullptr;   // {splits, elements}, where there are splits
};

// With the sums of the splits.
void launch_flash_dbias_sm80(const FlashDbiasParams& params, CUstream_st* stream);
void launch_flash_dbias_sums(const FlashDbiasParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
