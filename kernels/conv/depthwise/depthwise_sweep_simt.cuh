// Depthwise convolution with the filter in registers: forward, and both data gradients of steps 1 and 2.
//
//   sweep        y[n, i, j, c] = sum over r, s of x[n, i * stride + r * dilation - pad, j * stride + ..., c] * w[c, r,
//   s] sweep_dgrad  dx[n, 2 i + a - pad, 2 j + b - pad, c] = sum over u, v of dy[n, i - u, j - v, c] * w[c, a + 2 u, b
//   + 2 v]
//
// The data gradient of step 1 is the former with the filter mirrored. A block takes some channels of a range of units
// and puts their filters into shared memory; each thread copies those of its channels (two where memory runs along
// channels) to registers and goes down the rows of a strip of columns. A row of the image is loaded once, all columns
// that the strip's windows see, and added to each window that sees it: the sums of the kDepth rows of windows that are
// open lie in registers, and a row of windows is stored when its last image row was added. What neighbouring threads
// load as well comes from the L1. With a dilation a thread's windows are `dilation` apart, so that they share elements.
//
// An element of the image that does not exist counts as zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/depthwise_simt.cuh"

namespace gpudnn::kernels::depthwise {

// The sweep of plain sums. Its steps are unrolled by kDepth, so that nothing moves between registers: windows that
// began at step t have their sums at t % kDepth, and so do the image rows of a step, of which kDepth - 1 are on their
// way.
template <class T, class I, class Load, class Packs, int kFirst>
__device__ __forceinline__ void sweep_plain(const Params& p, const Load& load, const Packs (&ahead)[kFirst], int steps,
                                            const float (&taps)[I::kHeight][I::kWidth][I::kVector],
                                            std::uint32_t stored, T* out, int out_step, std::int64_t out_row_step) {
  constexpr int kDepth = I::kDepth;
  constexpr int kSeen = (I::kColumns - 1) * I::kStride + I::kWidth;
  constexpr int kAhead = I::kAhead;
  static_assert(kDepth % (kAhead + 1) == 0, "a step's rows have the same place in each turn");
  static_assert(kFirst == (kAhead > 0 ? kAhead : 1));
  Packs packs[kAhead + 1];
  float sums[kDepth][I::kColumns][I::kVector] = {};
#pragma unroll
  for (int i = 0; i < kFirst; ++i) memcpy(packs[i], ahead[i], sizeof(Packs));
#pragma unroll 1
  for (int first = 0; first < steps; first += kDepth) {
#pragma unroll
    for (int phase = 0; phase < kDepth; ++phase) {
      const int t = first + phase;
      if constexpr (kAhead > 0) load(t + kAhead < steps, packs[(phase + kAhead) % (kAhead + 1)]);
#pragma unroll
      for (int a = 0; a < I::kStride; ++a) {
        float x[kSeen][I::kVector];
#pragma unroll
        for (int j = 0; j < kSeen; ++j) tile::widen_pack<float>(packs[phase % (kAhead + 1)][a][j], x[j]);
        if (kAhead == 0 && a + 1 == I::kStride) load(t + 1 < steps, packs[0]);
#pragma unroll
        for (int r = a; r < I::kHeight; r += I::kStride) {
#pragma unroll
          for (int s = 0; s < I::kWidth; ++s) {
#pragma unroll
            for (int j = 0; j < I::kColumns; ++j) {
#pragma unroll
              for (int v = 0; v < I::kVector; ++v) {
                float& sum = sums[(phase + kDepth - r / I::kStride) % kDepth][j][v];
                const float product = x[j * I::kStride + s][v] * taps[r][s][v];
                sum = r == 0 && s == 0 ? product : sum + product;
              }
            }
          }
        }
      }
      constexpr int kOldest = kDepth - 1;
      const bool stores = t >= kOldest && t < steps;
#pragma unroll
      for (int j = 0; j < I::kColumns; ++j) {
        if (stores && (stored >> j & 1u) != 0) {
          tile::store_pack<T, I::kVector>(element_at(out, j, out_step),
                                          tile::narrow_pack<T>(sums[(phase + 1) % kDepth][j]));
        }
      }
      if (stores) out += out_row_step;
    }
  }
}

template <class T, int kRow>
__global__ void __launch_bounds__(kMaxThreads, kTiles[kRow].min_blocks) sweep_kernel(const __grid_constant__ Params p) {
  using I = Instance<kRow>;
  constexpr int kV = I::kVector;
  constexpr int kSeen = (I::kColumns - 1) * I::kStride + I::kWidth;  // columns of the image
  auto* const shared = reinterpret_cast<float*>(tile::dynamic_shared());
  std::uint32_t channel_block = 0;
  const std::uint32_t unit_block = p.channel_blocks.divmod(blockIdx.x, &channel_block);
  const Lane lane = lane_of(p);
  const std::uint32_t channel = (channel_block * p.lanes_c.divisor + lane.vector) * kV;
  const std::uint32_t index = unit_block * p.lanes_s.divisor + lane.unit;
  const bool works = lane.exists && channel < p.channels && index < p.units;
  const Unit unit = unit_at(p, works ? index : 0);
  const int windows = windows_from(p.h, unit.row);
  Target<T> target(p, unit.n, channel, unit.row, unit.column);
  const std::uint32_t stored = columns_inside<I::kColumns>(unit.column, p.w.step, p.w.rows);
  const int out_step = in_register(p.w.step * p.rows_steps.w);
  const std::int64_t out_row_step = static_cast<std::int64_t>(p.h.step) * p.rows_steps.h;
  const int addend_step = p.w.step * p.addend_steps.w;

  int row = unit.row * p.h.stride - p.h.pad;
  const int column = unit.column * p.w.stride - p.w.pad;
  const std::uint32_t inside = columns_inside<kSeen>(column, p.w.dilation, p.w.image);
  const int seen_step = in_register(p.w.dilation * p.image_steps.w);
  const int row_step = p.h.stride * p.h.step;
  const std::int64_t from_step = static_cast<std::int64_t>(row_step) * p.image_steps.h;
  const T* from = static_cast<const T*>(p.image) +
                  Target<T>::offset(p.image_steps, unit.n, p.multiplier.quotient(channel), row, column);

  const int steps = windows + I::kDepth - 1;
  using Packs = tile::Pack<T, kV>[I::kStride][kSeen];
  // The image rows of a step, and on to the next.
  const auto load = [&](bool any, Packs& packs) {
#pragma unroll
    for (int a = 0; a < I::kStride; ++a) {
      const bool exists = static_cast<unsigned>(row + a * p.h.dilation) < static_cast<unsigned>(p.h.image);
      load_row<T, kV, kSeen>(from + static_cast<std::int64_t>(a) * p.h.dilation * p.image_steps.h, seen_step,
                             any && exists ? inside : 0u, packs[a]);
    }
    row += row_step;
    from += from_step;
  };
  // The first rows are on their way while the filter comes.
  constexpr bool kHasPlainSweep = I::kPlainSweep && sizeof(T) == 2;
  constexpr int kFirst = kHasPlainSweep && I::kAhead > 1 ? I::kAhead : 1;
  Packs ahead[kFirst];
  load(works, ahead[0]);
  if (kFirst > 1 && p.is_plain) {
#pragma unroll
    for (int i = 1; i < kFirst; ++i) load(works && i < steps, ahead[i]);
  }
  stage_filter<T, I>(p, channel_block, shared);
  __syncthreads();
  if (!works) return;
  float taps[I::kHeight][I::kWidth][kV];
  read_filter<I>(p, shared, lane.vector, taps);
  if constexpr (kHasPlainSweep) {
    if (p.is_plain) {
      sweep_plain<T, I>(p, load, ahead, steps, taps, stored, target.out, out_step, out_row_step);
      return;
    }
  }
  float bias[kV];
  load_bias<T>(p, channel, bias);
  float sums[I::kDepth][I::kColumns][kV] = {};  // [0] of the newest row of windows
  Packs packs;
  memcpy(packs, ahead[0], sizeof packs);
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    Packs next;
    if constexpr (I::kLoadsAhead) load(t + 1 < steps, next);
#pragma unroll
    for (int a = 0; a < I::kStride; ++a) {
      float x[kSeen][kV];
#pragma unroll
      for (int j = 0; j < kSeen; ++j) tile::widen_pack<float>(packs[a][j], x[j]);
#pragma unroll
      for (int u = I::kDepth - 1; u >= 0; --u) {
        if (u * I::kStride + a >= I::kHeight) continue;
#pragma unroll
        for (int s = 0; s < I::kWidth; ++s) {
#pragma unroll
          for (int j = 0; j < I::kColumns; ++j) {
#pragma unroll
            for (int v = 0; v < kV; ++v) sums[u][j][v] += x[j * I::kStride + s][v] * taps[u * I::kStride + a][s][v];
          }
        }
      }
    }
    if (t >= I::kDepth - 1) {
      store_row<T, I::kColumns, kV>(p, sums[I::kDepth - 1], bias, stored, target.addend, addend_step, target.out,
                                    out_step);
      target.out += out_row_step;
      target.addend += static_cast<std::int64_t>(p.h.step) * p.addend_steps.h;
    }
#pragma unroll
    for (int u = I::kDepth - 1; u >= 0; --u) {
#pragma unroll
      for (int j = 0; j < I::kColumns; ++j) {
#pragma unroll
        for (int v = 0; v < kV; ++v) sums[u][j][v] = u > 0 ? sums[u > 0 ? u - 1 : 0][j][v] : 0.0f;
      }
    }
    if constexpr (I::kLoadsAhead) {
#pragma unroll
      for (int a = 0; a < I::kStride; ++a) {
#pragma unroll
        for (int j = 0; j < kSeen; ++j) packs[a][j] = next[a][j];
      }
    } else {
      load(t + 1 < steps, packs);
    }
  }
}

// A "window" is here a square of 2 x 2 elements of dx: those that the same elements of dy reach.
template <class T, int kRow>
__global__ void __launch_bounds__(kMaxThreads, kTiles[kRow].min_blocks)
    sweep_dgrad_kernel(const __grid_constant__ Params p) {
  using I = Instance<kRow>;
  constexpr int kV = I::kVector;
  constexpr int kS = I::kStride;
  constexpr int kDepth = I::kDepth;
  constexpr int kSeen = I::kColumns + kDepth - 1;  // columns of dy
  constexpr int kOut = I::kColumns * kS;           // columns of dx
  static_assert(I::kHeight == I::kWidth);
  auto* const shared = reinterpret_cast<float*>(tile::dynamic_shared());
  std::uint32_t channel_block = 0;
  const std::uint32_t unit_block = p.channel_blocks.divmod(blockIdx.x, &channel_block);
  stage_filter<T, I>(p, channel_block, shared);
  __syncthreads();
  const Lane lane = lane_of(p);
  const std::uint32_t channel = (channel_block * p.lanes_c.divisor + lane.vector) * kV;
  const std::uint32_t index = unit_block * p.lanes_s.divisor + lane.unit;
  if (!lane.exists || channel >= p.channels || index >= p.units) return;
  float taps[I::kHeight][I::kWidth][kV];
  read_filter<I>(p, shared, lane.vector, taps);

  const Unit unit = unit_at(p, index);
  const int windows = windows_from(p.h, unit.row);
  float bias[kV] = {};
  // The first windows are those of dx's first element: (0 + pad) / 2.
  int out_row = (unit.row + p.h.pad / kS) * kS - p.h.pad;
  const int out_column = (unit.column + p.w.pad / kS) * kS - p.w.pad;
  const std::uint32_t stored = columns_inside<kOut>(out_column, 1, p.w.rows);
  Target<T> target(p, unit.n, channel, out_row, out_column);

  int row = unit.row + p.h.pad / kS - (kDepth - 1);
  const int column = unit.column + p.w.pad / kS - (kDepth - 1);
  const std::uint32_t inside = columns_inside<kSeen>(column, 1, p.w.image);
  const T* from = static_cast<const T*>(p.image) + Target<T>::offset(p.image_steps, unit.n, channel, row, column);

  float sums[kDepth][kS][kOut][kV] = {};  // [u]: windows that began u rows of dy below this one
#pragma unroll 1
  for (int t = 0; t < windows + kDepth - 1; ++t) {
    tile::Pack<T, kV> packs[kSeen];
    load_row<T, kV, kSeen>(from, p.image_steps.w,
                           static_cast<unsigned>(row) < static_cast<unsigned>(p.h.image) ? inside : 0u, packs);
    float dy[kSeen][kV];
#pragma unroll
    for (int j = 0; j < kSeen; ++j) tile::widen_pack<float>(packs[j], dy[j]);
#pragma unroll
    for (int r = 0; r < I::kHeight; ++r) {
#pragma unroll
      for (int s = 0; s < I::kWidth; ++s) {
#pragma unroll
        for (int j = 0; j < I::kColumns; ++j) {
#pragma unroll
          for (int v = 0; v < kV; ++v) {
            sums[r / kS][r % kS][j * kS + s % kS][v] += dy[j - s / kS + kDepth - 1][v] * taps[r][s][v];
          }
        }
      }
    }
    if (t >= kDepth - 1) {
#pragma unroll
      for (int a = 0; a < kS; ++a) {
        if (static_cast<unsigned>(out_row + a) >= static_cast<unsigned>(p.h.rows)) continue;
#pragma unroll
        for (int j = 0; j < kOut; ++j) {
          if ((stored >> j & 1u) == 0) continue;
          store_sum<T, kV>(p, sums[0][a][j], bias,
                           target.addend + (static_cast<std::int64_t>(a) * p.addend_steps.h + j * p.addend_steps.w),
                           target.out + (static_cast<std::int64_t>(a) * p.rows_steps.h + j * p.rows_steps.w));
        }
      }
      out_row += kS;
      target.out += static_cast<std::int64_t>(kS) * p.rows_steps.h;
      target.addend += static_cast<std::int64_t>(kS) * p.addend_steps.h;
    }
#pragma unroll
    for (int u = 0; u < kDepth; ++u) {
#pragma unroll
      for (int a = 0; a < kS; ++a) {
#pragma unroll
        for (int j = 0; j < kOut; ++j) {
#pragma unroll
          for (int v = 0; v < kV; ++v) {
            sums[u][a][j][v] = u + 1 < kDepth ? sums[u + 1 < kDepth ? u + 1 : 0][a][j][v] : 0.0f;
          }
        }
      }
    }
    ++row;
    from += p.image_steps.h;
  }
}

}  // namespace gpudnn::kernels::depthwise
