// What the kernels of dropout share of Philox 4x32-10: rounds of several blocks at a time, so that their chains hide
// each other's latency, and the comparison of its halves of words (kernels/attention/attention.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/ptx/mul_wide.cuh"

namespace gpudnn::kernels::flash {

constexpr std::uint32_t kPhiloxFactor0 = 0xD2511F53U;
constexpr std::uint32_t kPhiloxFactor1 = 0xCD9E8D57U;
constexpr std::uint32_t kPhiloxStep0 = 0x9E3779B9U;
constexpr std::uint32_t kPhiloxStep1 = 0xBB67AE85U;
__device__ __forceinline__ std::uint32_t low_word(std::uint64_t product) { return static_cast<std::uint32_t>(product); }
__device__ __forceinline__ std::uint32_t high_word(std::uint64_t product) {
  return static_cast<std::uint32_t>(product >> 32);
}

// Rounds up to the tenth. The keys are those of the round before.
template <int kBlocks>
__device__ __forceinline__ void philox_rounds(int first, std::uint32_t key0, std::uint32_t key1,
                                              PhiloxBlock (&blocks)[kBlocks]) {
#pragma unroll
  for (int round = first; round < 10; ++round) {
    key0 += kPhiloxStep0;
    key1 += kPhiloxStep1;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const PhiloxBlock c = blocks[i];
      const std::uint64_t a = ptx::mul_wide(kPhiloxFactor0, c.word[0]);
      const std::uint64_t b = ptx::mul_wide(kPhiloxFactor1, c.word[2]);
      blocks[i] = {{high_word(b) ^ c.word[1] ^ key0, low_word(b), high_word(a) ^ c.word[3] ^ key1, low_word(a)}};
    }
  }
}
// Bits 15 and 31: whether each half of a word is not below the threshold, which is not 0. Both are compared at once:
// they are the carries of x + 2^16 - threshold.
__device__ __forceinline__ std::uint32_t kept_halves(std::uint32_t x, std::uint32_t threshold) {
  constexpr std::uint32_t kBelow = 0x7fff7fffU;
  const std::uint32_t rest = ((0x10000U - threshold) & 0xffffU) * 0x10001U;
  const std::uint32_t sum = (x & kBelow) + (rest & kBelow);
  return (x & rest) | (sum & (x | rest));
}

}  // namespace gpudnn::kernels::flash
