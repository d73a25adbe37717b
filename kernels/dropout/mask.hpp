// The random masks of dropout, for host and device alike: the generator, the state in the caller's memory, and the
// order in which a mask's bits stand in the reserve space. Plain data and functions.
// SPDX-License-Identifier: Apache-2.0
//
// The generator is Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"): a
// keyed bijection of 128-bit counters. The key is the seed; the counter is (group, calls), `calls` being the number of
// forward calls on this state before. One block of 128 bits decides on a group of 8 neighbours, 16 bits each: an
// element is dropped where its bits are below `threshold`, so the probability is a multiple of 2^-16.
//
// The reserve space is a header of 16 bytes, whose first 4 tell the order, and then a bit for each element, set where
// it is kept. Bits are in the order of the output's memory, so that forward and backward of equal layouts work on whole
// bytes; the header lets backward find them where its layout is another.
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::kernels {

constexpr int kMaskHeader = 16;
constexpr int kMaskGroup = 8;  // elements of one Philox block, and bits of one byte

// What the states memory holds.
struct DropoutStates {
  std::uint64_t seed;
  std::uint64_t calls;     // forward calls so far
  std::uint32_t finished;  // blocks of the running call that have read `calls`; 0 between calls
  std::uint32_t unused;
};

struct PhiloxBlock {
  std::uint32_t word[4];
};

// Several counters in step: the keys of the rounds are then made once for all of them.
template <int kBlocks>
GPUDNN_HOST_DEVICE void philox(PhiloxBlock (&counter)[kBlocks], std::uint32_t key0, std::uint32_t key1) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int i = 0; i < kBlocks; ++i) {
      const PhiloxBlock c = counter[i];
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * c.word[0];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c.word[2];
      counter[i] = {{static_cast<std::uint32_t>(b >> 32) ^ c.word[1] ^ key0, static_cast<std::uint32_t>(b),
                     static_cast<std::uint32_t>(a >> 32) ^ c.word[3] ^ key1, static_cast<std::uint32_t>(a)}};
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

GPUDNN_HOST_DEVICE PhiloxBlock counter_of_group(std::uint64_t group, std::uint64_t calls) {
  return {{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
           static_cast<std::uint32_t>(calls), static_cast<std::uint32_t>(calls >> 32)}};
}

// Whether element `index` of the 8 that the bits decide on is kept.
GPUDNN_HOST_DEVICE bool is_kept(const PhiloxBlock& random, int index, std::uint32_t threshold) {
  const std::uint32_t word = random.word[index / 2];
  return (index % 2 == 0 ? word & 0xffffu : word >> 16) >= threshold;
}

// Bit j: element 8 * group + j is kept.
GPUDNN_HOST_DEVICE unsigned mask_of_group(std::uint64_t group, std::uint64_t seed, std::uint64_t calls,
                                          std::uint32_t threshold) {
  PhiloxBlock random[1] = {counter_of_group(group, calls)};
  philox(random, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  unsigned mask = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int j = 0; j < kMaskGroup; ++j) mask |= is_kept(random[0], j, threshold) ? 1u << j : 0u;
  return mask;
}

// The order of the dimensions in memory: four bits each, the fastest lowest, its number plus 1; extents of 1 are left
// out.
struct MaskOrder {
  std::uint32_t code = 0;
  std::uint64_t dims[8] = {};  // by number
};

// Where the element at `position` of this order stands in the order `code`.
GPUDNN_HOST_DEVICE std::uint64_t position_in(std::uint32_t code, const MaskOrder& order, std::uint64_t position) {
  std::uint64_t result = 0;
  std::uint64_t step = 1;
  for (; code != 0; code >>= 4) {
    const std::uint32_t wanted = code & 15u;
    if (wanted == 0 || wanted > 8) break;  // no mask of this library's
    std::uint64_t rest = position;
    std::uint32_t mine = order.code;
    for (; mine != 0 && (mine & 15u) != wanted; mine >>= 4) rest /= order.dims[(mine & 15u) - 1];
    if (mine == 0) break;
    const std::uint64_t extent = order.dims[wanted - 1];
    result += rest % extent * step;
    step *= extent;
  }
  return result;
}

}  // namespace gpudnn::kernels
