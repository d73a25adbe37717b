// The filter in bfloat16 terms, as the split implicit GEMM reads it: plain data, shared by the launcher and the kernel.
//
// A row is a column of the product (forward: an output channel, data gradient: an input channel), its words are the
// reduction's channels in chunks of 32. In memory: [tap][chunk][plane][row][32], so that a tile of rows is one box.
// Planes: x0 (a finite number where x is not), x1, x2, and x where it is not finite (else 0), which is read only where
// a flag says that there is such a value (bf16_terms.cuh).
//
// The order of a chunk's 32 channels is that of the fragments of A: a thread t of four loads 32 bytes of a pixel,
// channels 8t to 8t + 7, and gives them to positions 2t, 2t + 1 and 2t + 8, 2t + 9 of the chunk's two products of 16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::fp32_split {

constexpr int kChunkChannels = 32;
constexpr int kChunkBytes = 64;  // of a term
constexpr int kTerms = 3;
constexpr int kPlanes = 4;
constexpr int kMaxSplitBlocks = 256;  // each has a flag
constexpr std::int64_t kFlagBytes = kMaxSplitBlocks * 4;

// The channel of a chunk at position i of vector v (of 8 positions, 16 bytes) of a row.
constexpr int channel_at(int v, int i) { return i / 2 * 8 + 2 * v + i % 2; }

// Steps are in elements.
struct SplitFilterParams {
  const float* filter = nullptr;
  void* terms = nullptr;
  std::uint32_t* flags = nullptr;  // of kMaxSplitBlocks blocks: whether it met a value that is not finite
  std::int64_t group_step = 0;
  std::int64_t row_step = 0;
  std::int64_t channel_step = 0;
  std::int64_t tap_step[3] = {};  // of the taps w, h, d, w being the fastest number
  std::uint32_t taps[3] = {1, 1, 1};
  tile::FastDivmod rows_of_group;
  tile::FastDivmod rows;  // of all groups
  std::uint32_t channels = 1;
  std::uint32_t chunks = 1;
};

void launch_split_filter(const SplitFilterParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::fp32_split
