// The kernel of lse and delta of flash_sm90's backward engines, and its launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/flash_fused_backward_sm90.hpp"
#include "kernels/attention/flash_tile.cuh"
#include "kernels/attention/score_range.hpp"

namespace gpudnn::kernels {
namespace {

using namespace flash;  // NOLINT

// lse and delta: 16 lanes for each row, or 8 up to 64 columns; the rows of a block are of one head.
constexpr int kDeltaThreads = 256;
static_assert(kFlashBackwardPitch % (kDeltaThreads / 8) == 0, "the rows of a block are of one head");
template <class T>
__global__ void __launch_bounds__(kDeltaThreads)
    flash_delta_sm90(const __grid_constant__ FlashDeltaParams p, int lead) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kDeltaThreads + threadIdx.x;
  if (thread < p.zeroed_words) p.zeroed[thread] = 0;
  const int lanes = p.dim_v <= 64 ? 8 : 16;
  const int rows = kDeltaThreads / lanes;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const auto blocks_of_head = static_cast<unsigned>(p.pitch) / rows;
  const auto batch_head = static_cast<int>(blockIdx.x / blocks_of_head);
  const int place = static_cast<int>(blockIdx.x % blocks_of_head) * rows + static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t index = batch_head * p.pitch + place;
  const int row = place - lead;
  const int batch = batch_head / p.heads;
  const int head = batch_head % p.heads;
  const bool inside = row >= 0 && row < sequence_of(p.mask, batch).length_q;
  float sum = 0.0F;
  if (inside) {
    const T* const o = static_cast<const T*>(p.o.data) + row_offset(p.o, batch, head, row);
    const T* const d_o = static_cast<const T*>(p.d_o.data) + row_offset(p.d_o, batch, head, row);
    // Ragged sequences may start anywhere.
    const bool aligned = ((reinterpret_cast<std::uintptr_t>(o) | reinterpret_cast<std::uintptr_t>(d_o)) & 15) == 0;
    for (int column = 8 * lane; column < p.dim_v; column += 8 * lanes) {
      float a[8], b[8];
      if (aligned) {
        tile::widen_pack<float>(tile::load_pack<T, 8>(o + column), a);
        tile::widen_pack<float>(tile::load_pack<T, 8>(d_o + column), b);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          a[e] = tile::widen<float>(o[column + e]);
          b[e] = tile::widen<float>(d_o[column + e]);
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fmaf(a[e], b[e], sum);
    }
  }
#pragma unroll
  for (int step = 8; step > 0; step /= 2) {
    const float others = __shfl_xor_sync(0xffffffffu, sum, step);
    if (step < lanes) sum += others;
  }
  if (lane != 0) return;
  float lse = INFINITY;
  if (inside) {
    const float stats = static_cast<const float*>(p.stats.data)[row_offset(p.stats, batch, head, row)];
    if (holds_sum(stats)) lse = stats * kLog2E;
    if (p.alibi_slopes != nullptr)
      lse = fmaf(p.alibi_slopes[head] * kLog2E, static_cast<float>(place % p.tile_rows), lse);
  }
  p.lse[index] = lse;
  p.delta[index] = inside ? sum : 0.0F;
}

template <class T>
void launch_delta_type(const FlashDeltaParams& params, int lead, CUstream_st* stream) {
  const int rows = kDeltaThreads / (params.dim_v <= 64 ? 8 : 16);
  const auto blocks = static_cast<unsigned>(params.pitch * params.batch_heads / rows);
  cuda::launch_kernel(flash_delta_sm90<T>, {blocks, kDeltaThreads}, stream, params, lead);
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
