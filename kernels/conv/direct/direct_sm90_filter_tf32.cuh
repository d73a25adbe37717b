// The direct convolution's filter of f32 in shared memory: boxes of TMA, cut to TF32 on their way.
//
// A block is 64 m and 32 k of a tap: two boxes of 32 rows of 128 bytes, in the swizzle of 128 bytes. TF32 operands are
// K-major. Forward the tensor's rows are channels, which are k. Of the data gradient they are m: there a box comes in
// as 32 k of 32 m, and a warp transposes it in place, 32 elements to a lane. It reads 32 words of a row at once, and
// writes 16 bytes of eight rows at once, which the swizzle spreads: neither has a conflict of banks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/direct/direct_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::direct {

constexpr int kFilterBoxBytes = kFilterBlockBytes / 2;

__device__ __forceinline__ unsigned char* filter_block(const Params& p, unsigned char* filter, std::uint32_t tap,
                                                       std::uint32_t k_block) {
  return filter + (tap * p.k_blocks + k_block) * kFilterBlockBytes;
}

// One thread. Blocks of threads begin at different taps, so that they do not ask the L2 for the same lines at once.
__device__ __forceinline__ void fetch_filter(const Params& p, std::uint32_t row_block, unsigned char* filter,
                                             std::uint64_t* arrived) {
  const auto first_m = static_cast<std::int32_t>(row_block * p.m_octets * 4);
  const std::uint32_t first_tap = blockIdx.x % p.all_taps;
#pragma unroll 1
  for (std::uint32_t k_block = 0; k_block < p.k_blocks; ++k_block) {
    const auto k = static_cast<std::int32_t>(k_block * 32);
    ptx::mbarrier_arrive_expect_tx(&arrived[k_block], p.all_taps * kFilterBlockBytes);
    std::uint32_t tap = first_tap;
#pragma unroll 1
    for (std::uint32_t i = 0; i < p.all_taps; ++i) {
      const auto number = static_cast<std::int32_t>(p.mirrored ? p.all_taps - 1 - tap : tap);
      unsigned char* const to = filter_block(p, filter, tap, k_block);
#pragma unroll
      for (std::int32_t half = 0; half < 2; ++half) {
        const std::int32_t m = first_m + 32 * half;
        ptx::tma_tile_3d(to + half * kFilterBoxBytes, &p.filter_map, &arrived[k_block], p.transposed ? m : k, number,
                         p.transposed ? k : m);
      }
      tap = tap + 1 == p.all_taps ? 0 : tap + 1;
    }
  }
}

// All consumers together: boxes of 32 k of 32 m become 32 m of 32 k.
__device__ __forceinline__ void transpose_filter(const Params& p, unsigned char* filter, std::uint64_t* arrived,
                                                 int barrier) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll 1
  for (std::uint32_t k_block = 0; k_block < p.k_blocks; ++k_block) {
    tile::wait(&arrived[k_block], 0);
#pragma unroll 1
    for (std::uint32_t i = threadIdx.x / 32 - 4; i < 2 * p.all_taps; i += 4 * kConsumers) {
      unsigned char* const box = filter_block(p, filter, i / 2, k_block) + i % 2 * kFilterBoxBytes;
      std::uint32_t column[32];
#pragma unroll
      for (std::uint32_t k = 0; k < 32; ++k) {
        column[k] = *reinterpret_cast<const std::uint32_t*>(box + k * 128 + (lane / 4 ^ k % 8) * 16 + lane % 4 * 4);
      }
      __syncwarp();
#pragma unroll
      for (std::uint32_t j = 0; j < 8; ++j) {
        *reinterpret_cast<uint4*>(box + lane * 128 + (j ^ lane % 8) * 16) =
            make_uint4(column[4 * j], column[4 * j + 1], column[4 * j + 2], column[4 * j + 3]);
      }
    }
  }
  ptx::fence_proxy_async();  // wgmma reads through the asynchronous proxy
  ptx::barrier_sync(barrier, 128 * kConsumers);
}

// Rows of 128 bytes in their swizzle; eight of them further is the next 1024 bytes.
__device__ __forceinline__ std::uint64_t filter_descriptor_tf32(const unsigned char* filter) {
  return std::uint64_t{1} << 62 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 16 |
         static_cast<std::uint64_t>((ptx::shared_address(filter) & 0x3ffffu) >> 4);
}

}  // namespace gpudnn::kernels::direct
