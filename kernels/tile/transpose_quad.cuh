// Exchanges among the four threads that hold a row of a wgmma fragment: of each group of eight columns a thread has the
// two from 2 * (thread % 4) on; after it, all eight of the group that has its number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::tile {

// Bytes: thread t has in pairs[j] the bytes 2t and 2t + 1 of group j.
__device__ __forceinline__ uint2 transpose_quad(std::uint32_t pairs_01, std::uint32_t pairs_23) {
  const bool upper = (threadIdx.x & 2u) != 0;
  const bool odd = (threadIdx.x & 1u) != 0;
  const std::uint32_t received = __shfl_xor_sync(0xffffffffu, upper ? pairs_01 : pairs_23, 2);
  const std::uint32_t of_01 = upper ? received : pairs_01;  // from threads 0 and 1
  const std::uint32_t of_23 = upper ? pairs_23 : received;
  const std::uint32_t kept = __byte_perm(of_01, of_23, odd ? 0x7632 : 0x5410);
  const std::uint32_t other = __shfl_xor_sync(0xffffffffu, __byte_perm(of_01, of_23, odd ? 0x5410 : 0x7632), 1);
  return make_uint2(__byte_perm(kept, other, odd ? 0x1054 : 0x5410), __byte_perm(kept, other, odd ? 0x3276 : 0x7632));
}

// 16-bit elements: thread t has in words[j] the elements 2t and 2t + 1 of group j.
__device__ __forceinline__ uint4 transpose_quad(const std::uint32_t (&words)[4]) {
  const bool upper = (threadIdx.x & 2u) != 0;
  const bool odd = (threadIdx.x & 1u) != 0;
  // From the thread two away: of the two groups that this half of the four takes.
  const std::uint32_t near_0 = upper ? words[2] : words[0];
  const std::uint32_t near_1 = upper ? words[3] : words[1];
  const std::uint32_t far_0 = __shfl_xor_sync(0xffffffffu, upper ? words[0] : words[2], 2);
  const std::uint32_t far_1 = __shfl_xor_sync(0xffffffffu, upper ? words[1] : words[3], 2);
  // From the neighbour: of this thread's group.
  const std::uint32_t near_other = __shfl_xor_sync(0xffffffffu, odd ? near_0 : near_1, 1);
  const std::uint32_t far_other = __shfl_xor_sync(0xffffffffu, odd ? far_0 : far_1, 1);
  const std::uint32_t near_mine = odd ? near_1 : near_0;
  const std::uint32_t far_mine = odd ? far_1 : far_0;
  const std::uint32_t near_even = odd ? near_other : near_mine;  // of the pair's even thread
  const std::uint32_t near_odd = odd ? near_mine : near_other;
  const std::uint32_t far_even = odd ? far_other : far_mine;
  const std::uint32_t far_odd = odd ? far_mine : far_other;
  return upper ? make_uint4(far_even, far_odd, near_even, near_odd)
               : make_uint4(near_even, near_odd, far_even, far_odd);
}

}  // namespace gpudnn::tile
