// Dropout in kernels whose fragments have keys as rows: a bit for each probability that a thread holds. One generator
// block is for 16 queries (kernels/attention/attention.hpp); some of them go a round at a time, so that their chains
// hide each other's latency.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_philox.cuh"
#include "kernels/ptx/prmt.cuh"

namespace gpudnn::kernels::flash {

// Which of a thread's probabilities are kept where rows of its fragments are keys, of tiles of 16 queries from `row`, a
// multiple of 16 that may be negative, on. A generator's block has queries r and r + 8 and keys c, c + 1, c + 8, c + 9,
// so lanes 4 apart need halves of the same two: each makes one of them.
class DrawOfKeys {
 public:
  __device__ __forceinline__ DrawOfKeys(const DropoutKey& key, std::uint32_t batch_head, std::int32_t row,
                                        std::uint32_t column)
      : odd_(column % 2) {
    // Rounds 1 and 2 but for what differs, and the first product of round 3.
    const std::uint64_t of_head = ptx::mul_wide(kPhiloxFactor1, batch_head);
    const std::uint64_t of_column = ptx::mul_wide(kPhiloxFactor0, column / 16 * 4 + column % 8 / 2);
    const std::uint64_t second = ptx::mul_wide(kPhiloxFactor1, high_word(of_column) ^ key.offset ^ key.key1);
    key0_ = key.key0 + kPhiloxStep0;
    key1_ = key.key1 + kPhiloxStep1;
    first_ = {{high_word(second) ^ low_word(of_head) ^ key0_, low_word(second), low_word(of_column) ^ key1_, 0}};
    of_head_ = high_word(of_head) ^ key.key0;
    counter_ = static_cast<std::uint32_t>(row / 2) + threadIdx.x % 4 * 2 + odd_;
  }

  // Of up to four tiles of 16 queries from tile `first` on: bit 4 i + w + 16 e is that of element 8 i + 2 w + e.
  template <int kBlocks>
  [[nodiscard]] __device__ __forceinline__ std::uint32_t kept(int first, std::uint32_t threshold) const {
    static_assert(kBlocks <= 4, "a word has bits for so many");
    PhiloxBlock blocks[kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint32_t its = counter_ + 8 * static_cast<std::uint32_t>(first + i);
      const std::uint64_t of_row = ptx::mul_wide(kPhiloxFactor0, of_head_ ^ its);
      blocks[i] = {{first_.word[0], first_.word[1], high_word(of_row) ^ first_.word[2], low_word(of_row)}};
    }
    philox_rounds(2, key0_, key1_, blocks);
    // Bits enter at the top of both halves and go down.
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int w = 0; w < 4; ++w) bits = bits >> 1 | (kept_halves(blocks[i].word[w], threshold) & 0x80008000U);
    }
    bits >>= 16 - 4 * kBlocks;
    const std::uint32_t others = __shfl_xor_sync(0xffffffffu, bits, 4);
    return ptx::prmt(bits, others, odd_ != 0 ? 0x3276U : 0x5410U);
  }

 private:
  std::uint32_t odd_, key0_, key1_, of_head_, counter_;
  PhiloxBlock first_;
};

}  // namespace gpudnn::kernels::flash
