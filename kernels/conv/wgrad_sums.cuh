// What becomes of a filter gradient's sums: the blocks' are added up, in order, and stored in dw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/conv/linear_combination.cuh"
#include "kernels/conv/wgrad_taps.hpp"
#include "kernels/tile/quads.cuh"

namespace gpudnn::kernels {

// Stores the sum of a tap of octet number `octet` of a filter. Params: alpha, beta, dw, taps.
template <class T, class Params>
__device__ __forceinline__ void store_sum(const Params& p, std::uint32_t octet, std::uint32_t tap, std::uint32_t filter,
                                          float sum) {
  const FilterTaps& taps = p.taps;
  std::uint32_t row_octet = 0;
  std::uint32_t r = taps.row_octets.divmod(octet, &row_octet);
  tap += row_octet * kOctet;
  if (r >= taps.height || tap >= taps.row_taps || filter >= taps.filters) return;
  std::uint32_t c = 0;
  std::uint32_t s = taps.channels.divmod(tap, &c);
  if (taps.mirrored) {
    r = taps.height - 1 - r;
    s = taps.width - 1 - s;
  }
  combine_and_store(
      p, sum, static_cast<T*>(p.dw) + (filter * taps.step_k + c * taps.step_c + r * taps.step_r + s * taps.step_s));
}

// --- the sum over the splits -----------------------------------------------------------------------------------------
// A block leaves its sums in quads. Those of a part's splits follow one another.

constexpr int kSumThreads = 256;

// The lanes that share a quad: no more than there are splits.
inline int sum_lanes(std::uint32_t splits) {
  constexpr int kMaxLanes = 32;
  int lanes = 1;
  while (lanes < kMaxLanes && static_cast<std::uint32_t>(2 * lanes) <= splits) lanes *= 2;
  return lanes;
}
inline std::uint32_t sum_blocks(std::uint32_t parts, std::uint32_t quads, int lanes) {
  return parts * (quads * static_cast<std::uint32_t>(lanes) / kSumThreads);
}

// What a thread adds up.
struct SumPlace {
  std::uint32_t part, quad;
  int lane, lanes;
};
__device__ __forceinline__ SumPlace sum_place(std::uint32_t quads, int lanes) {
  const int columns = kSumThreads / lanes;
  const int column = static_cast<int>(threadIdx.x) % columns;
  const std::uint32_t blocks_of_part = quads / static_cast<std::uint32_t>(columns);
  return {blockIdx.x / blocks_of_part,
          blockIdx.x % blocks_of_part * static_cast<std::uint32_t>(columns) + static_cast<std::uint32_t>(column),
          static_cast<int>(threadIdx.x) / columns, lanes};
}

// Lane l adds splits l, l + lanes and so on; then the lanes are added up as a tree. The first one has the sum.
__device__ __forceinline__ float4 sum_over_splits(const float* partials, std::uint32_t quads, std::uint32_t splits,
                                                  const SumPlace& place) {
  const auto* const from =
      reinterpret_cast<const float4*>(partials) + static_cast<std::size_t>(place.part) * splits * quads + place.quad;
  const float4 sum = tile::sum_of_splits(from, quads, splits, place.lane, place.lanes);
  return tile::sum_of_lanes<kSumThreads>(sum, place.lane, place.lanes, kSumThreads / place.lanes);
}

}  // namespace gpudnn::kernels
