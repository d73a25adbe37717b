// What the kernels of the gather engines (flash_gather_backward_sm90, flash_sm80) are told backward, and their launch
// functions. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_gather.hpp"

namespace gpudnn::kernels {

constexpr std::int32_t kFlashBackwardRows = 128;  // of the tiles that a block holds

struct FlashGatherBackwardParams {
  AttentionParams problem;
  FlashMask mask;
  float* lse = nullptr;    // workspace {batch, heads of q, pitch}: stats log2(e); infinity where the row sees nothing
  float* delta = nullptr;  // the same of the sums of dO o; 0 beyond the sequence
  std::int64_t pitch = 0;  // a multiple of kFlashBackwardPitch
  std::int32_t group = 1;  // query heads for each head of k and v
  std::int32_t heads_of_section = 1;
  bool modifies = false;  // scores change before softmax: soft cap, bias, ALiBi
  float scale_log2 = 0;
  float scale = 0;
  float cap_log2 = 0;           // soft cap times log2(e); 0: none
  float scale_by_cap = 0;       // scale / soft cap
  bool bias_in_eights = false;  // 8 columns of bias are one aligned load of 16-bit elements
  FlashElementwise elementwise;
  // flash_gather_backward_sm90 alone: blocks that share the query heads of a head of k and v, and their sums: {parts,
  // batch, heads of k, rows of whole tiles, the dimension that the kernel is built for}.
  std::int32_t parts = 1;
  float* partial_dk = nullptr;
  float* partial_dv = nullptr;
};

enum class FlashGradient : std::int32_t { dq, dk_dv, dk, dv };

// Rows of a tile that streams by.
constexpr std::int32_t flash_gather_backward_stream(int dim) { return dim == 256 ? 32 : 64; }

// lse and delta of all rows, from o, dO and stats.
void launch_flash_gather_delta(const FlashGatherBackwardParams& params, CUstream_st* stream);
// One gradient, or dk and dv in one: head dimensions up to 128 in one, beyond it apart.
void launch_flash_gather_backward_sm90(const FlashGatherBackwardParams& params, FlashGradient gradient,
                                       CUstream_st* stream);

}  // namespace gpudnn::kernels
