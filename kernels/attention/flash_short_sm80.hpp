// What flash_short_sm80's kernel is told, and its launch function. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_mask.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

constexpr std::int32_t kFlashShortRows = 64;  // of q, and of k and v, at most
constexpr std::int32_t kFlashShortDim = 64;

struct FlashShortParams {
  AttentionParams problem;
  FlashMask mask;
  std::int32_t group_k = 1;  // query heads that share a head of k
  std::int32_t group_v = 1;
  std::int32_t step = 1;  // a block takes every step-th batch of its head
  float scale = 0;
  bool bias_is_plain = false;  // of the tensors' type, its columns side by side
  bool adds_anew = false;      // bias, or what a length hides, differs from batch to batch
};

// Blocks that a multiprocessor holds.
constexpr std::int32_t flash_short_blocks(int dim) { return dim <= 32 ? 4 : 3; }
void launch_flash_short_sm80(const FlashShortParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
