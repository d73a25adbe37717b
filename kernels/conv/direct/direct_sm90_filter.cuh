// The direct convolution's filter in shared memory, and wgmma's descriptor of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/direct/direct_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/ptx/tma.cuh"

namespace gpudnn::kernels::direct {

enum NamedBarrier : int { kStagingBarrier = 1, kFilterBarrier = kStagingBarrier + kConsumers };  // first: one for each

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
  std::uint32_t to;      // of the first tap, in shared memory
  const char* from;      // of the first tap, in the tensor
  bool exists;           // in the tensor
  std::uint32_t octets;  // core matrices of the item, up to four
  bool has_octet;        // the lane's is one of them
};
__device__ __forceinline__ FilterRow filter_row(const Params& p, std::uint32_t group, std::uint32_t row_block,
                                                std::uint32_t item, std::uint32_t base) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t quad = 0;
  const std::uint32_t filter_octet = p.filter_quads.divmod(item, &quad);
  const std::uint32_t channel_octet = quad * 4 + lane / 8;
  const std::uint32_t m = p.transposed ? channel_octet : filter_octet;
  const std::uint32_t k = p.transposed ? filter_octet : channel_octet;
  const std::uint32_t first_m = row_block * p.m_octets;
  const std::uint32_t channel = channel_octet + (p.transposed ? first_m : 0);
  const std::uint32_t filter = (filter_octet + (p.transposed ? 0 : first_m)) * 8 + lane % 8;
  const std::uint32_t first_tap = p.mirrored ? p.all_taps - 1 : 0;
  FilterRow row;
  row.octets = min((p.transposed ? p.m_octets : p.k_octets) - quad * 4, 4u);
  row.has_octet = lane / 8 < row.octets;
  row.exists = row.has_octet && channel < p.filter_channels && filter < p.filter_count;
  row.to = base + (k * p.m_octets + m) * kCoreBytes + lane % 8 * 16;
  row.from = static_cast<const char*>(p.filter) + group * p.group_filter_bytes +
             ((static_cast<std::int64_t>(filter) * p.all_taps + first_tap) * p.filter_channels + channel) * 16;
  return row;
}

// All consumers together; blocks begin at different items, so that they do not ask the L2 for the same lines at once.
// Through registers: asynchronous copies took half as long again. What the tensor has not is zero: the products must
// not meet a NaN.
__device__ __forceinline__ void load_filter(const Params& p, std::uint32_t group, std::uint32_t row_block,
                                            unsigned char* filter) {
  constexpr std::uint32_t kTaps = 9;  // under way
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t base = ptx::shared_address(filter);
  const std::uint32_t to_step = p.k_octets * p.m_octets * kCoreBytes;
  const std::int64_t from_step = (p.mirrored ? -16 : 16) * static_cast<std::int64_t>(p.filter_channels);
  const std::uint32_t first = blockIdx.x % p.filter_items;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x / 32 - 4; i < p.filter_items; i += 4 * kConsumers) {
    const std::uint32_t item = i + first < p.filter_items ? i + first : i + first - p.filter_items;
    FilterRow row = filter_row(p, group, row_block, item, base);
    unsigned char* to = filter + (row.to - base);
#pragma unroll 1
    for (std::uint32_t tap = 0; tap < p.all_taps; tap += kTaps, to += kTaps * to_step, row.from += kTaps * from_step) {
      uint4 bits[kTaps];
#pragma unroll
      for (std::uint32_t j = 0; j < kTaps; ++j) {
        bits[j] = row.exists && tap + j < p.all_taps ? *reinterpret_cast<const uint4*>(row.from + j * from_step)
                                                     : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (std::uint32_t j = 0; j < kTaps; ++j) {
        if (row.has_octet && tap + j < p.all_taps) *reinterpret_cast<uint4*>(to + j * to_step) = bits[j];
      }
    }
    if (!p.transposed) continue;
    // Each core matrix in place. Lanes without one read the first.
    __syncwarp();
    const std::uint32_t first_core = row.to - lane / 8 * kCoreBytes;
    std::uint32_t from = row.has_octet ? row.to : first_core;
    for (std::uint32_t tap = 0; tap < p.all_taps; ++tap, from += to_step) {
      std::uint32_t words[4];
      ptx::ldmatrix_x4_trans(from, words);
#pragma unroll
      for (std::uint32_t j = 0; j < 4; ++j) {
        if (j < row.octets) ptx::stmatrix_x1(first_core + tap * to_step + j * kCoreBytes, words[j]);
      }
    }
  }
  ptx::fence_proxy_async();  // wgmma reads through the asynchronous proxy
  ptx::barrier_sync(kFilterBarrier, 128 * kConsumers);
}

}  // namespace gpudnn::kernels::direct
