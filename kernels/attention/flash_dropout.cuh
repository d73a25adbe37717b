// Dropout of the probabilities that a thread of the gather kernels holds: one generator block for each 16 columns
// (kernels/attention/attention.hpp), all of them a round at a time, so that their chains hide each other's latency.
// Of the 20 products of a block, two are the same in all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/ptx/mul_wide.cuh"
#include "kernels/ptx/prmt.cuh"

namespace gpudnn::kernels::flash {

// Probabilities that are dropped become 0. `column`: of the first block.
template <int kBlocks>
__device__ __forceinline__ void drop_weights(const DropoutKey& key, std::uint32_t threshold, std::uint32_t batch_head,
                                             std::uint32_t row, std::uint32_t column,
                                             std::uint32_t (&weights)[kBlocks][4]) {
  constexpr std::uint32_t kFactor0 = 0xD2511F53U;
  constexpr std::uint32_t kFactor1 = 0xCD9E8D57U;
  constexpr std::uint32_t kStep0 = 0x9E3779B9U;
  constexpr std::uint32_t kStep1 = 0xBB67AE85U;
  const auto low = [](std::uint64_t product) { return static_cast<std::uint32_t>(product); };
  const auto high = [](std::uint64_t product) { return static_cast<std::uint32_t>(product >> 32); };
  // Round 1, and the first product of round 2.
  const std::uint64_t of_head = ptx::mul_wide(kFactor1, batch_head);
  const std::uint64_t of_row = ptx::mul_wide(kFactor0, high(of_head) ^ (row / 16 * 8 + row % 8) ^ key.key0);
  std::uint32_t key0 = key.key0 + kStep0;
  std::uint32_t key1 = key.key1 + kStep1;
  PhiloxBlock blocks[kBlocks];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t of_column =
        ptx::mul_wide(kFactor0, column / 16 * 4 + column % 8 / 2 + 4 * static_cast<std::uint32_t>(i));
    const std::uint64_t second = ptx::mul_wide(kFactor1, high(of_column) ^ key.offset ^ key.key1);
    blocks[i] = {{high(second) ^ low(of_head) ^ key0, low(second), high(of_row) ^ low(of_column) ^ key1, low(of_row)}};
  }
#pragma unroll
  for (int round = 2; round < 10; ++round) {
    key0 += kStep0;
    key1 += kStep1;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const PhiloxBlock c = blocks[i];
      const std::uint64_t a = ptx::mul_wide(kFactor0, c.word[0]);
      const std::uint64_t b = ptx::mul_wide(kFactor1, c.word[2]);
      blocks[i] = {{high(b) ^ c.word[1] ^ key0, low(b), high(a) ^ c.word[3] ^ key1, low(a)}};
    }
  }
  // Both halves of a word are compared at once: bits 15 and 31 of the majority are the carries of x + 2^16 - threshold.
  constexpr std::uint32_t kBelow = 0x7fff7fffU;
  const std::uint32_t rest = ((0x10000U - threshold) & 0xffffU) * 0x10001U;
  if (threshold == 0) return;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const std::uint32_t x = blocks[i].word[w];
      const std::uint32_t sum = (x & kBelow) + (rest & kBelow);
      const std::uint32_t carries = (x & rest) | (sum & (x | rest));
      // Word w decides on row w / 2 * 8, columns w % 2 * 8 and the next.
      weights[i][w % 2 * 2 + w / 2] &= ptx::prmt(carries, 0, 0xbb99);
    }
  }
}

}  // namespace gpudnn::kernels::flash
