// The filter of the Hopper data gradient for images of few channels: from the tensor to its places in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/small_c/small_c_dgrad_sm90.hpp"
#include "kernels/ptx/cvt_tf32.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::small_c_dgrad {

// The filters from `first` on, `count` of them, in the order filter, r, s, c, to `raw`.
template <class T>
__device__ __forceinline__ void copy_filters(const Params& p, std::uint32_t first, std::uint32_t count,
                                             unsigned char* raw) {
  const std::uint32_t elements = count * p.filter_taps;
  if (p.filter_is_packed) {
    const auto* const from = reinterpret_cast<const uint4*>(static_cast<const T*>(p.w) + first * p.filter_taps);
    auto* const to = reinterpret_cast<uint4*>(raw);
#pragma unroll 4
    for (std::uint32_t i = threadIdx.x; i < elements / (16 / sizeof(T)); i += blockDim.x) to[i] = from[i];
    return;
  }
  const T* const w = static_cast<const T*>(p.w) + p.w_base;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < elements; i += blockDim.x) {
    std::uint32_t c = 0;
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const std::uint32_t k = first + p.taps_h_div.divmod(p.taps_w_div.divmod(p.channel_div.divmod(i, &c), &s), &r);
    reinterpret_cast<T*>(raw)[i] = w[k * p.ws.n + static_cast<std::int64_t>(c) * p.ws.c +
                                     static_cast<std::int64_t>(r) * p.ws.h + static_cast<std::int64_t>(s) * p.ws.w];
  }
}

// From there to their places: a warp takes a tap's channel of 64 filters, a lane two of them.
template <class T>
__device__ __forceinline__ void place_filters(const Params& p, std::uint32_t first, std::uint32_t count,
                                              const unsigned char* raw, unsigned char* filter) {
  constexpr std::uint32_t kFilters = kRowBytes / sizeof(T);
  constexpr std::uint32_t kLanes = 64;  // filters of a warp
  const std::uint32_t taps_u = static_cast<std::uint32_t>(p.taps_u);
  const std::uint32_t group = static_cast<std::uint32_t>(p.group);
  for (std::uint32_t k = first + threadIdx.x % 32 * 2; k < first + count; k += kLanes) {
    const T* const from = reinterpret_cast<const T*>(raw) + (k - first) * p.filter_taps;
    unsigned char* const panel = filter + k / kFilters * static_cast<std::uint32_t>(p.taps_v) * p.panel_bytes;
    const std::uint32_t byte = k % kFilters * static_cast<std::uint32_t>(sizeof(T));
#pragma unroll 2
    for (std::uint32_t tap = threadIdx.x / 32; tap < p.filter_taps; tap += blockDim.x / 32) {
      T low = from[tap];
      T high = from[tap + p.filter_taps];
      std::uint32_t c = 0;
      std::uint32_t s = 0;
      std::uint32_t a = 0;
      std::uint32_t b = 0;
      const std::uint32_t r = p.taps_w_div.divmod(p.channel_div.divmod(tap, &c), &s);
      const std::uint32_t u = p.stride_h_div.divmod(r, &a);
      const std::uint32_t v = p.stride_w_div.divmod(s, &b);
      const std::uint32_t row = u * group + a * p.class_pitch + b * p.channel_div.divisor + c;
      const auto place = [&](std::uint32_t of_row) {
        const std::uint32_t chunk = byte / 16 ^ (of_row & 7u);  // the swizzle of 128 bytes
        unsigned char* const to = panel + v * p.panel_bytes + of_row * kRowBytes + chunk * 16 + byte % 16;
        if constexpr (sizeof(T) == 2) {
          *reinterpret_cast<std::uint32_t*>(to) = tile::word_of<T>(low, high);
        } else {
          *reinterpret_cast<uint2*>(to) = make_uint2(ptx::cvt_rna_tf32(low), ptx::cvt_rna_tf32(high));
        }
      };
      place(row);
      if (u + 1 < taps_u) place(row + taps_u * group);
    }
  }
}

// By all threads of the block, by way of the staging areas; ends with them free.
template <class T>
__device__ __forceinline__ void build_filter(const Params& p, unsigned char* filter, unsigned char* raw) {
  const std::uint32_t bytes = p.filter_blocks * static_cast<std::uint32_t>(p.taps_v) * p.panel_bytes;
  for (std::uint32_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
    *reinterpret_cast<uint4*>(filter + at) = make_uint4(0, 0, 0, 0);
  }
  const std::uint32_t filters = static_cast<std::uint32_t>(p.filters);
#pragma unroll 1
  for (std::uint32_t first = 0; first < filters; first += p.raw_filters) {
    const std::uint32_t count = min(p.raw_filters, filters - first);
    copy_filters<T>(p, first, count, raw);
    __syncthreads();
    place_filters<T>(p, first, count, raw, filter);
    ptx::fence_proxy_async();  // wgmma reads through the asynchronous proxy
    __syncthreads();
  }
}

}  // namespace gpudnn::kernels::small_c_dgrad
