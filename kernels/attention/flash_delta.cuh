// What the gather engines' backward kernels read of each row of q: lse and delta.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather_backward.hpp"
#include "kernels/attention/flash_tile.cuh"
#include "kernels/attention/score_range.hpp"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels::flash {

// lse and delta: a warp for each row.
template <class T>
__global__ void __launch_bounds__(256) flash_delta(const __grid_constant__ FlashGatherBackwardParams p) {
  const AttentionParams& a = p.problem;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (index >= p.pitch * a.heads_q * a.batch) return;
  const auto row = static_cast<int>(index % p.pitch);
  const auto head = static_cast<int>(index / p.pitch % a.heads_q);
  const auto batch = static_cast<int>(index / p.pitch / a.heads_q);
  const bool inside = row < sequence_of(p.mask, batch).length_q;
  float sum = 0.0F;
  if (inside) {
    const T* const o = static_cast<const T*>(a.o.data) + row_offset(a.o, batch, head, row);
    const T* const d_o = static_cast<const T*>(a.d_o.data) + row_offset(a.d_o, batch, head, row);
    for (int column = static_cast<int>(threadIdx.x % 32); column < a.dim_v; column += 32) {
      sum =
          fmaf(tile::widen<float>(o[column * a.o.strides[3]]), tile::widen<float>(d_o[column * a.d_o.strides[3]]), sum);
    }
  }
  sum = tile::warp_reduce(sum, tile::Sum{});
  if (threadIdx.x % 32 != 0) return;
  float lse = INFINITY;
  if (inside) {
    const float stats = static_cast<const float*>(a.stats.data)[row_offset(a.stats, batch, head, row)];
    if (holds_sum(stats)) lse = stats * kLog2E;
  }
  p.lse[index] = lse;
  p.delta[index] = inside ? sum : 0.0F;
}

}  // namespace gpudnn::kernels::flash
