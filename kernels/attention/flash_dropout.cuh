// Dropout of the probabilities that a thread of the gather kernels holds: one generator block for each 16 columns
// (kernels/attention/attention.hpp), all of them a round at a time, so that their chains hide each other's latency.
// Of the 20 products of a block, two are the same in all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_philox.cuh"
#include "kernels/ptx/prmt.cuh"

namespace gpudnn::kernels::flash {

// Probabilities that are dropped become 0. `column`: of the first block.
template <int kBlocks>
__device__ __forceinline__ void drop_weights(const DropoutKey& key, std::uint32_t threshold, std::uint32_t batch_head,
                                             std::uint32_t row, std::uint32_t column,
                                             std::uint32_t (&weights)[kBlocks][4]) {
  // Round 1, and the first product of round 2.
  const std::uint64_t of_head = ptx::mul_wide(kPhiloxFactor1, batch_head);
  const std::uint64_t of_row = ptx::mul_wide(kPhiloxFactor0, high_word(of_head) ^ (row / 16 * 8 + row % 8) ^ key.key0);
  const std::uint32_t key0 = key.key0 + kPhiloxStep0;
  const std::uint32_t key1 = key.key1 + kPhiloxStep1;
  PhiloxBlock blocks[kBlocks];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t of_column =
        ptx::mul_wide(kPhiloxFactor0, column / 16 * 4 + column % 8 / 2 + 4 * static_cast<std::uint32_t>(i));
    const std::uint64_t second = ptx::mul_wide(kPhiloxFactor1, high_word(of_column) ^ key.offset ^ key.key1);
    blocks[i] = {{high_word(second) ^ low_word(of_head) ^ key0, low_word(second),
                  high_word(of_row) ^ low_word(of_column) ^ key1, low_word(of_row)}};
  }
  philox_rounds(2, key0, key1, blocks);
  if (threshold == 0) return;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const std::uint32_t carries = kept_halves(blocks[i].word[w], threshold);
      // Word w decides on row w / 2 * 8, columns w % 2 * 8 and the next.
      weights[i][w % 2 * 2 + w / 2] &= ptx::prmt(carries, 0, 0xbb99);
    }
  }
}

}  // namespace gpudnn::kernels::flash
