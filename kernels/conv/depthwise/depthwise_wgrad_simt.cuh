// Filter gradient of the depthwise convolution:
//
//   dw[c, r, s] = sum over n, i, j of x[n, i * stride + r * dilation - pad, j * stride + s * dilation - pad, c] * dy[n,
//   i, j, c]
//
// The mirror image of depthwise_sweep_simt.cuh: a thread keeps the sums of all taps of its channels (two where memory
// runs along channels) in registers and goes over its units, down the rows of a strip of columns in each. A row of x is
// loaded once and meets the rows of dy whose windows see it, the last kDepth ones, which lie in registers. Then the
// threads of a block that have the same channels add up their sums as a tree in shared memory. With one split that is
// dw; with more, each leaves its sums in the workspace, and sum_splits_kernel adds those up in order. All orders are
// fixed.
//
// Larger filters are cut into tiles of 1 x 8 taps (blockIdx.y), each of which is a filter gradient of its own; and so
// is each slice of a volume's filter, whose units are slices of dy.
//
// Along contiguous lines (depthwise_line_simt.cuh) a thread's units are packs of a channel's lines.
//
// An element of x that does not exist counts as zero. One of dy that does not exist meets nothing, as zero times an
// infinity of x would be a NaN.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/depthwise_line_simt.cuh"

namespace gpudnn::kernels::depthwise {

template <class I>
using TapSums = float[I::kHeight][I::kWidth][I::kVector];

// Adds the products of an image row, number a of its step, and the rows of dy. kAll: they all exist.
template <class I, bool kAll, int kSeen>
__device__ __forceinline__ void add_products(int a, const float (&x)[kSeen][I::kVector],
                                             const float (&dy)[I::kDepth][I::kColumns][I::kVector], std::uint32_t rows,
                                             int columns, TapSums<I>& sums) {
#pragma unroll
  for (int j = 0; j < I::kColumns; ++j) {
    if (I::kColumns > 1 && j >= columns) break;
#pragma unroll
    for (int u = 0; u < I::kDepth; ++u) {
      if (u * I::kStride + a >= I::kHeight) continue;
      if (!kAll && (rows >> u & 1u) == 0) continue;
#pragma unroll
      for (int s = 0; s < I::kWidth; ++s) {
#pragma unroll
        for (int v = 0; v < I::kVector; ++v) {
          sums[u * I::kStride + a < I::kHeight ? u * I::kStride + a : 0][s][v] +=
              x[j * I::kStride + s][v] * dy[u][j][v];
        }
      }
    }
  }
}

// The sums over a unit. tap_row, tap_column: the first of the thread's taps; slice: of the image, under the filter's.
template <class T, class I>
__device__ __forceinline__ void add_unit(const Params& p, const Unit& unit, std::uint32_t channel, int slice,
                                         int tap_row, int tap_column, TapSums<I>& sums) {
  constexpr int kV = I::kVector;
  constexpr int kSeen = (I::kColumns - 1) * I::kStride + I::kWidth;
  const int windows = windows_from(p.h, unit.row);
  const std::uint32_t read = columns_inside<I::kColumns>(unit.column, p.w.step, p.w.rows);
  const int columns = __popc(read);
  const int dy_step = in_register(p.w.step * p.rows_steps.w);
  const T* dy_from = static_cast<const T*>(p.rows) +
                     Target<T>::offset(p.rows_steps, unit.n, channel, unit.row, unit.column, unit.slice);
  int row = unit.row * p.h.stride - p.h.pad + tap_row * p.h.dilation;
  const int column = unit.column * p.w.stride - p.w.pad + tap_column * p.w.dilation;
  const std::uint32_t inside = columns_inside<kSeen>(column, p.w.dilation, p.w.image);
  const int seen_step = in_register(p.w.dilation * p.image_steps.w);
  const T* from = static_cast<const T*>(p.image) +
                  Target<T>::offset(p.image_steps, unit.n, p.multiplier.quotient(channel), row, column, slice);
  struct Rows {
    tile::Pack<T, kV> dy[I::kColumns];
    tile::Pack<T, kV> image[I::kStride][kSeen];
  };
  const int steps = windows + I::kDepth - 1;
  const int row_step = p.h.stride * p.h.step;
  const std::int64_t from_step = static_cast<std::int64_t>(row_step) * p.image_steps.h;
  const std::int64_t dy_row_step = static_cast<std::int64_t>(p.h.step) * p.rows_steps.h;
  // The rows of step t, and on to the next.
  const auto load = [&](int t, Rows& loaded) {
    load_row<T, kV, I::kColumns>(dy_from, dy_step, t < windows ? read : 0u, loaded.dy);
#pragma unroll
    for (int a = 0; a < I::kStride; ++a) {
      const bool exists = static_cast<unsigned>(row + a * p.h.dilation) < static_cast<unsigned>(p.h.image);
      load_row<T, kV, kSeen>(from + static_cast<std::int64_t>(a) * p.h.dilation * p.image_steps.h, seen_step,
                             exists && t < steps ? inside : 0u, loaded.image[a]);
    }
    row += row_step;
    from += from_step;
    dy_from += dy_row_step;
  };
  float dy[I::kDepth][I::kColumns][kV] = {};  // [0] is the newest row
  Rows loaded;
  load(0, loaded);
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    Rows next;
    if constexpr (I::kLoadsAhead) load(t + 1, next);
#pragma unroll
    for (int u = I::kDepth - 1; u > 0; --u) {
#pragma unroll
      for (int j = 0; j < I::kColumns; ++j) {
#pragma unroll
        for (int v = 0; v < kV; ++v) dy[u][j][v] = dy[u > 0 ? u - 1 : 0][j][v];
      }
    }
#pragma unroll
    for (int j = 0; j < I::kColumns; ++j) tile::widen_pack<float>(loaded.dy[j], dy[0][j]);
    // Bit u: row t - u is one of the unit's.
    const std::uint32_t rows = ((2u << min(t, 30)) - 1u) & ~(t >= windows ? (1u << (t - windows + 1)) - 1u : 0u);
    const bool all = t >= I::kDepth - 1 && t < windows;
#pragma unroll
    for (int a = 0; a < I::kStride; ++a) {
      float x[kSeen][kV];
#pragma unroll
      for (int j = 0; j < kSeen; ++j) tile::widen_pack<float>(loaded.image[a][j], x[j]);
      if (all) {
        add_products<I, true, kSeen>(a, x, dy, rows, columns, sums);
      } else {
        add_products<I, false, kSeen>(a, x, dy, rows, columns, sums);
      }
    }
    if constexpr (I::kLoadsAhead) {
      loaded = next;
    } else {
      load(t + 1, loaded);
    }
  }
}

// The epilogue of tap (t, r, s) of a channel.
template <class T>
__device__ __forceinline__ void finish_tap(const Params& p, std::uint32_t channel, int t, int r, int s, float sum) {
  if (p.mirrored) {
    t = p.d.taps - 1 - t;
    r = p.h.taps - 1 - r;
    s = p.w.taps - 1 - s;
  }
  const std::int64_t at = channel * p.filter_k + t * p.filter_t + r * p.filter_r + s * p.filter_s;
  float value = p.alpha * sum;
  if (p.addend_scale != 0.0f) value += p.addend_scale * tile::widen<float>(static_cast<const T*>(p.addend)[at]);
  static_cast<T*>(p.out)[at] = tile::narrow<T>(value);
}

template <class T, int kRow>
__global__ void __launch_bounds__(kMaxThreads, kTiles[kRow].min_blocks) wgrad_kernel(const __grid_constant__ Params p) {
  using I = Instance<kRow>;
  constexpr int kV = I::kVector;
  std::uint32_t channel_block = 0;
  const std::uint32_t split = p.channel_blocks.divmod(blockIdx.x, &channel_block);
  std::uint32_t tile_column = 0;
  std::uint32_t tile_row = 0;
  const int tap_slice =
      static_cast<int>(p.tap_tiles_h.divmod(p.tap_tiles_w.divmod(blockIdx.y, &tile_column), &tile_row));
  const int tap_row = static_cast<int>(tile_row) * I::kHeight;
  const int tap_column = static_cast<int>(tile_column) * I::kWidth;
  const Lane lane = lane_of(p);
  const std::uint32_t channel = (channel_block * p.lanes_c.divisor + lane.vector) * kV;
  const bool works = lane.exists && channel < p.channels;
  TapSums<I> sums = {};
  if (works) {
    for (std::uint32_t index = split * p.lanes_s.divisor + lane.unit; index < p.units;
         index += p.splits * p.lanes_s.divisor) {
      if constexpr (kTiles[kRow].kernel == Kernel::line_wgrad) {
        add_line_unit<T, I::kWidth>(p, index, channel, tap_column, sums);
      } else {
        const Unit unit = unit_in_volume(p, index);
        const int slice = unit.slice * p.d.stride - p.d.pad + tap_slice * p.d.dilation;
        if (static_cast<unsigned>(slice) >= static_cast<unsigned>(p.d.image)) continue;
        add_unit<T, I>(p, unit, channel, slice, tap_row, tap_column, sums);
      }
    }
  }

  auto* const shared = reinterpret_cast<float*>(tile::dynamic_shared());
  const std::uint32_t pitch = blockDim.x;
  const std::uint32_t unit_pitch = p.channels_last ? p.lanes_c.divisor : 1;
#pragma unroll
  for (int r = 0; r < I::kHeight; ++r) {
    __syncthreads();
#pragma unroll
    for (int s = 0; s < I::kWidth; ++s) {
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        shared[static_cast<std::uint32_t>(s * kV + v) * pitch + threadIdx.x] = sums[r][s][v];
      }
    }
    for (std::uint32_t count = p.lanes_s.divisor; count > 1; count = (count + 1) / 2) {
      const std::uint32_t half = (count + 1) / 2;
      __syncthreads();
      if (!lane.exists || lane.unit + half >= count) continue;
#pragma unroll
      for (int i = 0; i < I::kWidth * kV; ++i) {
        float* const at = shared + static_cast<std::uint32_t>(i) * pitch + threadIdx.x;
        *at += at[half * unit_pitch];
      }
    }
    if (!works || lane.unit != 0 || tap_row + r >= p.h.taps) continue;
      // One piece of code for all of them.
#pragma unroll 1
    for (int i = 0; i < I::kWidth * kV; ++i) {
      const int s = tap_column + i / kV;
      if (s >= p.w.taps) break;
      const float sum = shared[static_cast<std::uint32_t>(i) * pitch + threadIdx.x];
      const std::uint32_t of = channel + static_cast<std::uint32_t>(i % kV);
      if (p.splits == 1) {
        finish_tap<T>(p, of, tap_slice, tap_row + r, s, sum);
      } else {
        const auto tap = static_cast<std::size_t>((tap_slice * p.h.taps + tap_row + r) * p.w.taps + s);
        p.partials[(static_cast<std::size_t>(split) * p.channels + of) *
                       static_cast<std::size_t>(p.d.taps * p.h.taps * p.w.taps) +
                   tap] = sum;
      }
    }
  }
}

constexpr int kSumLanes = 8;     // threads that share a tap
constexpr int kSumColumns = 32;  // taps of a block
template <class T>
__global__ void __launch_bounds__(kSumLanes* kSumColumns) sum_splits_kernel(const __grid_constant__ Params p) {
  __shared__ float sums[kSumLanes][kSumColumns];
  const auto taps = static_cast<std::size_t>(p.d.taps * p.h.taps * p.w.taps);
  const std::size_t count = p.channels * taps;
  const std::size_t at = static_cast<std::size_t>(blockIdx.x) * kSumColumns + threadIdx.x % kSumColumns;
  const std::uint32_t lane = threadIdx.x / kSumColumns;
  float sum = 0;
  if (at < count) {
    for (std::uint32_t split = lane; split < p.splits; split += kSumLanes) sum += p.partials[split * count + at];
  }
  sums[lane][threadIdx.x % kSumColumns] = sum;
  __syncthreads();
  if (lane != 0 || at >= count) return;
  for (int i = 1; i < kSumLanes; ++i) sum += sums[i][threadIdx.x];
  const auto tap = static_cast<int>(at % taps);
  const int row = tap / p.w.taps;
  finish_tap<T>(p, static_cast<std::uint32_t>(at / taps), row / p.h.taps, row % p.h.taps, tap % p.w.taps, sum);
}

}  // namespace gpudnn::kernels::depthwise
