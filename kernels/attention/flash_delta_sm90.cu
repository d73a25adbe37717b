// The kernel of lse and delta of flash_sm90's backward engines, and its launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/flash_fused_backward_sm90.hpp"
#include "kernels/attention/flash_tile.cuh"
#include "kernels/attention/score_range.hpp"
#include "kernels/ptx/griddepcontrol.cuh"

namespace gpudnn::kernels {
namespace {

using namespace flash;  // NOLINT

// lse and delta: four lanes for each row. A lane asks for 128 columns of a row, or up to 64 columns of two rows, before
// it uses any. The rows of a block are of one head.
constexpr int kDeltaThreads = 256;
constexpr int kDeltaLanes = 4;
constexpr int kDeltaStep = kDeltaThreads / kDeltaLanes;
static_assert(kFlashBackwardPitch % (kDeltaStep * 2) == 0, "the rows of a block are of one head");

template <class T, int kDeltaRows>
__global__ void __launch_bounds__(kDeltaThreads, 3)
    flash_delta_sm90(const __grid_constant__ FlashDeltaParams p, int lead) {
  constexpr int kDeltaPacks = 4 / kDeltaRows;
  ptx::griddepcontrol_launch_dependents();
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kDeltaThreads + threadIdx.x;
  if (thread < p.zeroed_words) p.zeroed[thread] = 0;
  const int lane = static_cast<int>(threadIdx.x) % kDeltaLanes;
  const auto blocks_of_head = static_cast<unsigned>(p.pitch) / (kDeltaStep * kDeltaRows);
  const auto batch_head = static_cast<int>(blockIdx.x / blocks_of_head);
  const int first = static_cast<int>(blockIdx.x % blocks_of_head) * (kDeltaStep * kDeltaRows) +
                    static_cast<int>(threadIdx.x) / kDeltaLanes;
  const int batch = batch_head / p.heads;
  const int head = batch_head % p.heads;
  const int length = sequence_of(p.mask, batch).length_q;
  const T* const o = static_cast<const T*>(p.o.data) + row_offset(p.o, batch, head, first - lead);
  const T* const d_o = static_cast<const T*>(p.d_o.data) + row_offset(p.d_o, batch, head, first - lead);
  bool inside[kDeltaRows];
  float stats[kDeltaRows];
  float sums[kDeltaRows] = {};
#pragma unroll
  for (int r = 0; r < kDeltaRows; ++r) {
    const int row = first + r * kDeltaStep - lead;
    inside[r] = row >= 0 && row < length;
    stats[r] = inside[r] ? static_cast<const float*>(p.stats.data)[row_offset(p.stats, batch, head, row)] : -INFINITY;
  }
  const std::int64_t o_step = kDeltaStep * p.o.strides[2];
  const std::int64_t d_o_step = kDeltaStep * p.d_o.strides[2];
  // Ragged sequences may start anywhere.
  const bool aligned = ((reinterpret_cast<std::uintptr_t>(o) | reinterpret_cast<std::uintptr_t>(d_o) |
                         static_cast<std::uintptr_t>(2 * (o_step | d_o_step))) &
                        15) == 0;
  const int end = aligned ? p.dim_v : 0;
#pragma unroll 1
  for (int column = 8 * lane; column < end; column += 8 * kDeltaLanes * kDeltaPacks) {
    tile::Pack<T, 8> packs[kDeltaRows][kDeltaPacks][2];
#pragma unroll
    for (int r = 0; r < kDeltaRows; ++r) {
#pragma unroll
      for (int i = 0; i < kDeltaPacks; ++i) {
        const int at = column + 8 * kDeltaLanes * i;
        if (!inside[r] || at >= p.dim_v) continue;
        packs[r][i][0] = tile::load_pack<T, 8>(o + r * o_step + at);
        packs[r][i][1] = tile::load_pack<T, 8>(d_o + r * d_o_step + at);
      }
    }
#pragma unroll
    for (int r = 0; r < kDeltaRows; ++r) {
#pragma unroll
      for (int i = 0; i < kDeltaPacks; ++i) {
        if (!inside[r] || column + 8 * kDeltaLanes * i >= p.dim_v) continue;
        float a[8], b[8];
        tile::widen_pack<float>(packs[r][i][0], a);
        tile::widen_pack<float>(packs[r][i][1], b);
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[r] = fmaf(a[e], b[e], sums[r]);
      }
    }
  }
#pragma unroll 1
  for (int column = lane; !aligned && column < p.dim_v; column += kDeltaLanes) {
#pragma unroll
    for (int r = 0; r < kDeltaRows; ++r) {
      if (!inside[r]) continue;
      sums[r] =
          fmaf(tile::widen<float>(o[r * o_step + column]), tile::widen<float>(d_o[r * d_o_step + column]), sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kDeltaRows; ++r) {
#pragma unroll
    for (int step = kDeltaLanes / 2; step > 0; step /= 2) sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], step);
    if (lane != 0) continue;
    const int place = first + r * kDeltaStep;
    float lse = holds_sum(stats[r]) ? stats[r] * kLog2E : INFINITY;
    if (inside[r] && p.alibi_slopes != nullptr) {
      lse = fmaf(p.alibi_slopes[head] * kLog2E, static_cast<float>(place % p.tile_rows), lse);
    }
    p.lse[batch_head * p.pitch + place] = lse;
    p.delta[batch_head * p.pitch + place] = sums[r];
  }
}

template <class T, int kDeltaRows>
void launch_delta_rows(const FlashDeltaParams& params, int lead, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(params.pitch * params.batch_heads / (kDeltaStep * kDeltaRows));
  cuda::launch_kernel(flash_delta_sm90<T, kDeltaRows>, {blocks, kDeltaThreads}, stream, params, lead);
}
template <class T>
void launch_delta_type(const FlashDeltaParams& params, int lead, CUstream_st* stream) {
  if (params.dim_v <= 64) return launch_delta_rows<T, 2>(params, lead, stream);
  launch_delta_rows<T, 1>(params, lead, stream);
}

}  // namespace

void launch_flash_fused_delta_sm90(const FlashDeltaParams& params, std::int32_t lead, tile::ElementType type,
                                   CUstream_st* stream) {
  if (type == tile::ElementType::f16) return launch_delta_type<tile::Half>(params, lead, stream);
  launch_delta_type<tile::BFloat16>(params, lead, stream);
}

void launch_flash_delta_sm90(const FlashDeltaParams& params, tile::ElementType type, CUstream_st* stream) {
  launch_flash_fused_delta_sm90(params, 0, type, stream);
}

}  // namespace gpudnn::kernels
