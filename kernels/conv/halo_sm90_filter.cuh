// The halo convolution's filter in shared memory, and wgmma's descriptor of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/halo_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/ptx/tma.cuh"

namespace gpudnn::kernels::halo {

enum NamedBarrier : int { kStagingBarrier = 1, kFilterBarrier = kStagingBarrier + kConsumers };  // first: one for each

constexpr std::uint32_t kCoreBytes = 128;  // of 8 x 8 elements

// Without a swizzle, K-major: core matrices of 8 m, 16 bytes of k each; those that follow in m lie next to each other,
// those that follow in k m_octets of them further. Where a block has fewer than 64 m, the product reads what lies
// behind them: its rows of sums are not stored.
__device__ __forceinline__ std::uint64_t filter_descriptor(const Params& p, const unsigned char* filter) {
  return static_cast<std::uint64_t>(kCoreBytes >> 4) << 32 |
         static_cast<std::uint64_t>(p.m_octets * kCoreBytes >> 4) << 16 |
         static_cast<std::uint64_t>((ptx::shared_address(filter) & 0x3ffffu) >> 4);
}

// What a lane copies in its warp's item: a row of each tap of one of four core matrices that follow along the filter's
// channels. The tensor has [filter][tap][channel]; a row is 8 channels of a filter.
struct FilterRow {
  std::uint32_t to;    // of the first tap in shared memory
  std::int64_t from;   // bytes from the tensor's start to the first tap
  std::uint32_t size;  // 16, or 0 where the tensor has no such row
};
__device__ __forceinline__ FilterRow filter_row(const Params& p, std::uint32_t row_block, std::uint32_t item,
                                                std::uint32_t base) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t quad = 0;
  const std::uint32_t filter_octet = p.filter_quads.divmod(item, &quad);
  // Lanes beyond the last octet do what those of the last one do.
  const std::uint32_t channel_octet = min(quad * 4 + lane / 8, (p.transposed ? p.m_octets : p.k_octets) - 1);
  const std::uint32_t m = p.transposed ? channel_octet : filter_octet;
  const std::uint32_t k = p.transposed ? filter_octet : channel_octet;
  const std::uint32_t first_m = row_block * p.m_octets;
  const std::uint32_t channel = channel_octet + (p.transposed ? first_m : 0);
  const std::uint32_t filter = (filter_octet + (p.transposed ? 0 : first_m)) * 8 + lane % 8;
  const bool exists = channel < p.filter_channels && filter < p.filter_count;
  const std::uint32_t first_tap = p.mirrored ? p.all_taps - 1 : 0;
  FilterRow row;
  row.to = base + (k * p.m_octets + m) * kCoreBytes + lane % 8 * 16;
  row.from = exists ? ((static_cast<std::int64_t>(filter) * p.all_taps + first_tap) * p.filter_channels + channel) * 16
                    : std::int64_t{first_tap} * p.filter_channels * 16;
  row.size = exists ? 16 : 0;
  return row;
}

// All consumers together, in two parts: copies are started, and later waited for and transposed where they must be.
// What the tensor has not is zero: the products must not meet a NaN.
__device__ __forceinline__ void start_filter(const Params& p, std::uint32_t row_block, unsigned char* filter) {
  const std::uint32_t warp = threadIdx.x / 32 - 4;
  const std::uint32_t base = ptx::shared_address(filter);
  const std::uint32_t to_step = p.k_octets * p.m_octets * kCoreBytes;
  const std::int64_t from_step = (p.mirrored ? -16 : 16) * static_cast<std::int64_t>(p.filter_channels);
  for (std::uint32_t item = warp; item < p.filter_items; item += 4 * kConsumers) {
    FilterRow row = filter_row(p, row_block, item, base);
    const char* from = static_cast<const char*>(p.filter) + row.from;
#pragma unroll 3
    for (std::uint32_t tap = 0; tap < p.all_taps; ++tap, row.to += to_step, from += from_step) {
      ptx::cp_async<16>(row.to, from, row.size);
    }
  }
  ptx::cp_async_commit_group();
}

__device__ __forceinline__ void finish_filter(const Params& p, std::uint32_t row_block, unsigned char* filter) {
  const std::uint32_t warp = threadIdx.x / 32 - 4;
  const std::uint32_t base = ptx::shared_address(filter);
  const std::uint32_t to_step = p.k_octets * p.m_octets * kCoreBytes;
  ptx::cp_async_wait_group<0>();
  if (p.transposed) {
    __syncwarp();
    for (std::uint32_t item = warp; item < p.filter_items; item += 4 * kConsumers) {
      std::uint32_t address = filter_row(p, row_block, item, base).to;
#pragma unroll 3
      for (std::uint32_t tap = 0; tap < p.all_taps; ++tap, address += to_step) {
        std::uint32_t words[4];
        ptx::ldmatrix_x4_trans(address, words);
        ptx::stmatrix_x4(address, words[0], words[1], words[2], words[3]);
      }
    }
  }
  ptx::fence_proxy_async();  // wgmma reads through the asynchronous proxy
  ptx::barrier_sync(kFilterBarrier, 128 * kConsumers);
}

}  // namespace gpudnn::kernels::halo
