// Dropout of flash_gather_sm90: the producers make the bits of a tile of 128 x 128 scores while the consumers multiply.
//
// A generator block decides on 8 scores of a 16 x 16 square (kernels/attention/attention.hpp). A lane of the producers
// makes those of one column group and of 16 row groups, its warp's, four at a time, so that their chains hide each
// other's latency. Of the 20 products of a block, those of round 1, that of the columns in round 2 and that of column
// words in round 3 are the same in all of a lane's blocks: 16 are left, 4.2 cycles each.
//
// The decisions of a block are a byte: bit 7 - w of the lower half of word w, bit 3 - w of the upper one; 1 keeps. A
// tile's bytes lie as [row group][column group % 4][column group / 4], so that a consumer's eight are one load.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_forward_rows.cuh"
#include "kernels/ptx/mul_wide.cuh"
#include "kernels/ptx/prmt.cuh"

namespace gpudnn::kernels::flash_sm90 {

constexpr int kDropoutBytes = 128 * 128 / 8;

// The decisions of one tile. `tile`: the first row's group, and the first column's.
class DropoutBits {
 public:
  __device__ __forceinline__ DropoutBits(const DropoutKey& key, std::uint32_t threshold)
      : key_(key), threshold_(threshold) {}

  __device__ __forceinline__ void make(std::uint32_t batch_head, std::uint32_t row_group, std::uint32_t column_group,
                                       unsigned char* to) const {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t warp = threadIdx.x / 32;
    const Product head = multiply(kFactor1, batch_head);
    const Product column = multiply(kFactor0, column_group + lane);
    const Product second = multiply(kFactor1, column.high ^ key_.offset ^ key_.key1);
    const std::uint32_t first_word = second.high ^ head.low ^ (key_.key0 + kStep0);
    const std::uint32_t third_word = column.low ^ (key_.key1 + kStep1);
    const Product third = multiply(kFactor0, first_word);
    const std::uint32_t third_key = third.high ^ (key_.key1 + 2 * kStep1);
    row_group += warp * kRowsOfLane;
    unsigned char* place = to + warp * (kRowsOfLane * 32) + lane % 4 * 8 + lane / 4;
#pragma unroll 1
    for (int i = 0; i < kRowsOfLane; i += kAtOnce) {
      Block blocks[kAtOnce];
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        const std::uint32_t row = row_group + static_cast<std::uint32_t>(i + b);
        const Product of_row = multiply(kFactor0, head.high ^ row ^ key_.key0);
        // Round 3, whose first product is the columns' alone.
        const Product p = multiply(kFactor1, of_row.high ^ third_word);
        blocks[b] = {p.high ^ second.low ^ (key_.key0 + 2 * kStep0), p.low, of_row.low ^ third_key, third.low};
      }
      std::uint32_t key0 = key_.key0 + 3 * kStep0;
      std::uint32_t key1 = key_.key1 + 3 * kStep1;
#pragma unroll 1  // else the compiler makes one block after the other
      for (int round = 3; round < 10; ++round) {
#pragma unroll
        for (int b = 0; b < kAtOnce; ++b) {
          const Product p0 = multiply(kFactor0, blocks[b].word[0]);
          const Product p1 = multiply(kFactor1, blocks[b].word[2]);
          blocks[b] = {p1.high ^ blocks[b].word[1] ^ key0, p1.low, p0.high ^ blocks[b].word[3] ^ key1, p0.low};
        }
        key0 += kStep0;
        key1 += kStep1;
      }
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) place[(i + b) * 32] = static_cast<unsigned char>(decisions(blocks[b]));
    }
  }

  // Probabilities whose bits are 0 become 0. `bits`: of this thread's row group and column pair, in a tile.
  static __device__ __forceinline__ void apply(const unsigned char* bits, std::uint32_t (&weights)[8][4]) {
    const uint2 loaded = *reinterpret_cast<const uint2*>(bits);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t four = half == 0 ? loaded.x : loaded.y;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        // Word w is of row w / 2 * 8 and columns w % 2 * 8, and the next.
        const std::uint32_t low = four << word;
        const std::uint32_t high = four << (word + 4);
#pragma unroll
        for (std::uint32_t i = 0; i < 4; ++i) {
          weights[4 * half + static_cast<int>(i)][word % 2 * 2 + word / 2] &=
              ptx::prmt(low, high, (8 + i) * 0x11 + (12 + i) * 0x1100);
        }
      }
    }
  }

 private:
  static constexpr int kRowsOfLane = 16;
  static constexpr int kAtOnce = 4;
  static constexpr std::uint32_t kFactor0 = 0xD2511F53U;
  static constexpr std::uint32_t kFactor1 = 0xCD9E8D57U;
  static constexpr std::uint32_t kStep0 = 0x9E3779B9U;
  static constexpr std::uint32_t kStep1 = 0xBB67AE85U;
  struct Product {
    std::uint32_t low, high;
  };
  struct Block {
    std::uint32_t word[4];
  };
  static __device__ __forceinline__ Product multiply(std::uint32_t a, std::uint32_t b) {
    const std::uint64_t product = ptx::mul_wide(a, b);
    return {static_cast<std::uint32_t>(product), static_cast<std::uint32_t>(product >> 32)};
  }
  // Both halves of a word are compared at once: bits 15 and 31 of the majority are the carries of x + 2^16 - threshold.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t decisions(const Block& block) const {
    constexpr std::uint32_t kBelow = 0x7fff7fffU;
    const std::uint32_t rest = ((0x10000U - threshold_) & 0xffffU) * 0x10001U;
    std::uint32_t kept = threshold_ == 0 ? 0xffffffffU : 0U;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const std::uint32_t x = block.word[w];
      const std::uint32_t sum = (x & kBelow) + (rest & kBelow);
      const std::uint32_t carries = (x & rest) | (sum & (x | rest));
      kept |= carries >> w & 0x80008000U >> w;
    }
    return kept >> 28 | (kept >> 8 & 0xf0U);
  }

  DropoutKey key_;
  std::uint32_t threshold_;
};

}  // namespace gpudnn::kernels::flash_sm90
