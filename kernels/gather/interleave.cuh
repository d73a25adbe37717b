// Folding by two along contiguous rows and its inverse: out = in[map] where pairs of neighbours on one side are
// elements of two lines, far from each other, on the other.
//
//   split   line[j][k] = pairs[2 k + j]     (folding: a row's even and odd columns go to channels of their own)
//   join    pairs[2 k + j] = line[j][k]     (unfolding)
//
// A thread moves one pack of each of the two lines, 16 bytes where everything is aligned to them, else 8, and the two
// packs of pairs that they make, by permuting registers: all loads and stores are whole packs. Neighbouring threads
// take neighbouring packs of the lines, and after them the loop in which the lines' memory goes on. Bytes: each element
// in and out once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/tile/loop_nest.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

constexpr int kInterleaveThreads = 256;

struct InterleaveArgs {
  const std::uint32_t* in;
  std::uint32_t* out;
  std::uint32_t threads;
  bool split;
  std::uint32_t selectors[2];  // of __byte_perm: what of two words makes the first word, and the second
  std::int64_t line_step;      // from one line to the other, words
  tile::FastDivmod packs;      // of a line
  tile::LoopNest<2> rest;      // lines, pairs; words
};

// kWords words of 32 bits in a pack.
template <int kWords>
__global__ void __launch_bounds__(kInterleaveThreads) interleave(const __grid_constant__ InterleaveArgs args) {
  using Pack = tile::Pack<std::uint32_t, kWords>;
  const std::uint32_t index = blockIdx.x * kInterleaveThreads + threadIdx.x;
  if (index >= args.threads) return;
  std::uint32_t pack;
  std::int64_t at[2];
  args.rest.offsets(args.packs.divmod(index, &pack), at);
  const std::int64_t line = at[0] + std::int64_t{pack} * kWords;
  const std::int64_t pairs = at[1] + std::int64_t{pack} * (2 * kWords);
  const std::int64_t first_in = args.split ? pairs : line;
  const std::int64_t in_step = args.split ? kWords : args.line_step;
  const Pack from[2] = {tile::load_pack<std::uint32_t, kWords>(args.in + first_in),
                        tile::load_pack<std::uint32_t, kWords>(args.in + first_in + in_step)};
  Pack to[2];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const int at_pairs = 2 * i % kWords;
    const Pack& half = from[2 * i / kWords];
    // Split: words 2 i and 2 i + 1 of the pairs are word i of each line; else the other way.
    const std::uint32_t a = args.split ? half.data[at_pairs] : from[0].data[i];
    const std::uint32_t b = args.split ? half.data[at_pairs + 1] : from[1].data[i];
    const std::uint32_t first = __byte_perm(a, b, args.selectors[0]);
    const std::uint32_t second = __byte_perm(a, b, args.selectors[1]);
    if (args.split) {
      to[0].data[i] = first;
      to[1].data[i] = second;
    } else {
      to[2 * i / kWords].data[at_pairs] = first;
      to[2 * i / kWords].data[at_pairs + 1] = second;
    }
  }
  const std::int64_t first_out = args.split ? line : pairs;
  const std::int64_t out_step = args.split ? args.line_step : kWords;
  tile::store_pack<std::uint32_t, kWords>(args.out + first_out, to[0]);
  tile::store_pack<std::uint32_t, kWords>(args.out + first_out + out_step, to[1]);
}

}  // namespace gpudnn::kernels
