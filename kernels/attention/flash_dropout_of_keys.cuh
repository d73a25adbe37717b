// Dropout in kernels whose fragments have keys as rows: a bit for each probability that a thread holds. One generator
// block is for 16 queries (kernels/attention/attention.hpp); some of them go a round at a time, so that their chains
// hide each other's latency.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_philox.cuh"
#include "kernels/ptx/prmt.cuh"

namespace gpudnn::kernels::flash {

// Which of a thread's probabilities are kept where rows of its fragments are keys, of tiles of 16 queries from `row`, a
// multiple of 16 that may be negative, on: bit 4 (i % 4) + w + 16 e of word i / 4 is that of element 8 i + 2 w + e. A
// block has queries r and r + 8 and keys c, c + 1, c + 8, c + 9, so lanes 4 apart need halves of the same two: each
// makes one of them.
template <int kBlocks>
__device__ __forceinline__ void draw_of_keys(const DropoutKey& key, std::uint32_t threshold, std::uint32_t batch_head,
                                             std::int32_t row, std::uint32_t column,
                                             std::uint32_t (&kept)[(kBlocks + 3) / 4]) {
  const std::uint32_t odd = column % 2;
  // Rounds 1 and 2 but for what differs, and the first product of round 3.
  const std::uint64_t of_head = ptx::mul_wide(kPhiloxFactor1, batch_head);
  const std::uint64_t of_column = ptx::mul_wide(kPhiloxFactor0, column / 16 * 4 + column % 8 / 2);
  const std::uint64_t second = ptx::mul_wide(kPhiloxFactor1, high_word(of_column) ^ key.offset ^ key.key1);
  const std::uint32_t key0 = key.key0 + kPhiloxStep0;
  const std::uint32_t key1 = key.key1 + kPhiloxStep1;
  const std::uint32_t word0 = high_word(second) ^ low_word(of_head) ^ key0;
  const std::uint32_t counter = static_cast<std::uint32_t>(row / 2) + threadIdx.x % 4 * 2 + odd;
#pragma unroll
  for (int first = 0; first < kBlocks; first += 4) {
    constexpr int kMost = kBlocks < 4 ? kBlocks : 4;
    PhiloxBlock blocks[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const std::uint32_t its = counter + 8 * static_cast<std::uint32_t>(first + i);
      const std::uint64_t of_row = ptx::mul_wide(kPhiloxFactor0, high_word(of_head) ^ its ^ key.key0);
      blocks[i] = {{word0, low_word(second), high_word(of_row) ^ low_word(of_column) ^ key1, low_word(of_row)}};
    }
    philox_rounds(2, key0, key1, blocks);
    // Bits enter at the top of both halves and go down.
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        if (first + i < kBlocks) bits = bits >> 1 | (kept_halves(blocks[i].word[w], threshold) & 0x80008000U);
      }
    }
    if (first + kMost > kBlocks) bits >>= 4 * (first + kMost - kBlocks);
    const std::uint32_t others = __shfl_xor_sync(0xffffffffu, bits, 4);
    kept[first / 4] = ptx::prmt(bits, others, odd != 0 ? 0x3276U : 0x5410U);
  }
}

}  // namespace gpudnn::kernels::flash
