// What the kernels of the depthwise convolution share: where a thread works, its loads, and the end of a sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/conv/depthwise/depthwise_simt.hpp"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::depthwise {

// A tile row's numbers as constants of a type.
template <int kRow>
struct Instance {
  static constexpr TileRow kTile = kTiles[kRow];
  static constexpr int kHeight = kTile.height;
  static constexpr int kWidth = kTile.width;
  static constexpr int kStride = kTile.stride > 0 ? kTile.stride : 1;
  static constexpr int kVector = kTile.vector;
  static constexpr int kColumns = kTile.columns;
  static constexpr int kMinBlocks = kTile.min_blocks;
  // Whether a step's rows are loaded while the one before is added up: not where registers are short.
  static constexpr bool kLoadsAhead = kVector == 1 || kHeight < 5 || kMinBlocks == 1;
  // Windows that share an image row, one under the other.
  static constexpr int kDepth = (kHeight + kStride - 1) / kStride;
  // Plain sums of 16 bits have a loop of their own, with the rows of so many steps on their way; 0: those of the next
  // one replace these as soon as they are floats, where registers are short.
  static constexpr bool kPlainSweep = kVector >= 2 && (kHeight == 1 || kHeight == 3 || (kHeight == 5 && kStride == 1));
  static constexpr int kAhead = kHeight == 3 ? kDepth - 1 : 0;
};

// Keeps a value in a register, where the compiler would work it out anew for each use.
__device__ __forceinline__ int in_register(int value) {
  auto bits = static_cast<std::uint32_t>(value);
  ptx::pin(bits);
  return static_cast<int>(bits);
}

// What a thread does in its block.
struct Lane {
  std::uint32_t vector;  // of the block's channels
  std::uint32_t unit;    // of the block's units
  bool exists;           // blocks are filled up to whole warps
};
__device__ __forceinline__ Lane lane_of(const Params& p) {
  Lane lane;
  if (p.channels_last) {
    lane.unit = p.lanes_c.divmod(threadIdx.x, &lane.vector);
  } else {
    lane.vector = p.lanes_s.divmod(threadIdx.x, &lane.unit);
  }
  lane.exists = lane.unit < p.lanes_s.divisor && lane.vector < p.lanes_c.divisor;
  return lane;
}

// A unit: the first window of a strip, and the image of the batch.
struct Unit {
  std::uint32_t n;
  int row, column;
  int slice = 0;  // of a volume
};
__device__ __forceinline__ int first_window(const Axis& axis, std::uint32_t unit) {
  std::uint32_t chunk = 0;
  const std::uint32_t phase = axis.chunks.divmod(unit, &chunk);
  return static_cast<int>(phase) + static_cast<int>(chunk) * axis.chunk * axis.step;
}
__device__ __forceinline__ Unit unit_at(const Params& p, std::uint32_t index) {
  std::uint32_t column = 0;
  std::uint32_t row = 0;
  Unit unit;
  unit.n = p.row_units.divmod(p.col_units.divmod(index, &column), &row);
  unit.row = first_window(p.h, row);
  unit.column = first_window(p.w, column);
  return unit;
}
// The same where images may be volumes.
__device__ __forceinline__ Unit unit_in_volume(const Params& p, std::uint32_t index) {
  Unit unit = unit_at(p, index);
  std::uint32_t slice = 0;
  unit.n = p.depth.divmod(unit.n, &slice);
  unit.slice = static_cast<int>(slice);
  return unit;
}
// Windows of the unit along an axis: those of its chunk that the tensor has.
__device__ __forceinline__ int windows_from(const Axis& axis, int first) {
  const int left = axis.windows - first;
  if (left <= 0) return 0;
  const int windows = axis.step == 1 ? left : (left + axis.step - 1) / axis.step;
  return min(windows, axis.chunk);
}

// Bit j: column first + j * step is one of the image.
template <int kCount>
__device__ __forceinline__ std::uint32_t columns_inside(int first, int step, int extent) {
  std::uint32_t mask = 0;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    if (static_cast<unsigned>(first + j * step) < static_cast<unsigned>(extent)) mask |= 1u << j;
  }
  return mask;
}

// Element j * step of a row. A step is below 2^30: its bytes are one multiplication away, without a sign.
template <class T>
__device__ __forceinline__ T* element_at(T* row, int j, int step) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  const std::uint32_t bytes = static_cast<std::uint32_t>(step) * static_cast<std::uint32_t>(sizeof(T));
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(row) +
                              static_cast<std::uint64_t>(bytes) * static_cast<unsigned>(j));
}

// kCount packs of a row, zero where the mask has no bit.
template <class T, int kVector, int kCount>
__device__ __forceinline__ void load_row(const T* row, int step, std::uint32_t mask,
                                         tile::Pack<T, kVector> (&packs)[kCount]) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    packs[j] = {};
    if ((mask >> j & 1u) != 0) packs[j] = tile::load_pack<T, kVector>(element_at(row, j, step));
  }
}

// The filter of the block's channels as floats: channel by channel, those with even numbers first where a thread has
// two, so that the lanes of a warp read different banks (filters mostly have an odd number of taps).
template <int kVector>
__device__ __forceinline__ std::uint32_t shared_channel(const Params& p, std::uint32_t vector, int element) {
  return kVector == 1 ? vector : static_cast<std::uint32_t>(element) * p.lanes_c.divisor + vector;
}
// Taps (row, first) to (row, first + kWidth - 1) of kHeight rows from `row` on.
template <class T, class I>
__device__ __forceinline__ void stage_filter(const Params& p, std::uint32_t channel_block, float* shared) {
  constexpr int kTaps = I::kHeight * I::kWidth;
  const std::uint32_t channels = p.lanes_c.divisor * I::kVector;
  const std::uint32_t first = channel_block * channels;
  for (std::uint32_t i = threadIdx.x; i < channels * kTaps; i += blockDim.x) {
    const std::uint32_t channel = i / kTaps;
    int tap = static_cast<int>(i % kTaps);
    const std::uint32_t to =
        shared_channel<I::kVector>(p, channel / I::kVector, static_cast<int>(channel % I::kVector));
    float value = 0;
    if (first + channel < p.channels) {
      const int from = p.mirrored ? kTaps - 1 - tap : tap;
      value = tile::widen<float>(static_cast<const T*>(
          p.filter)[(first + channel) * p.filter_k + from / I::kWidth * p.filter_r + from % I::kWidth * p.filter_s]);
    }
    shared[to * kTaps + static_cast<std::uint32_t>(tap)] = value;
  }
}
template <class I>
__device__ __forceinline__ void read_filter(const Params& p, const float* shared, std::uint32_t vector,
                                            float (&taps)[I::kHeight][I::kWidth][I::kVector]) {
#pragma unroll
  for (int v = 0; v < I::kVector; ++v) {
    const float* const from = shared + shared_channel<I::kVector>(p, vector, v) * (I::kHeight * I::kWidth);
#pragma unroll
    for (int r = 0; r < I::kHeight; ++r) {
#pragma unroll
      for (int s = 0; s < I::kWidth; ++s) taps[r][s][v] = from[r * I::kWidth + s];
    }
  }
}

// alpha * sum + addend_scale * addend + bias, and the activation. Kernels take their parameters as
// __grid_constant__, because the function that is called wants the address of them: else each thread copies all of
// them, 520 bytes, to its stack first.
template <class T, int kVector>
__device__ __forceinline__ void finish_sum(const Params& p, const float (&bias)[kVector], const T* addend,
                                           float (&value)[kVector]) {
#pragma unroll
  for (int v = 0; v < kVector; ++v) value[v] *= p.alpha;
  if (p.addend_scale != 0.0f) {
    float other[kVector];
    tile::widen_pack<float>(tile::load_pack<T, kVector>(addend), other);
#pragma unroll
    for (int v = 0; v < kVector; ++v) value[v] += p.addend_scale * other[v];
  }
#pragma unroll
  for (int v = 0; v < kVector; ++v) value[v] += bias[v];
  gemm::activate_by_call(p.activation, value);
}
template <class T, int kVector>
__device__ __forceinline__ void store_sum(const Params& p, const float (&sum)[kVector], const float (&bias)[kVector],
                                          const T* addend, T* out) {
  float value[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) value[v] = sum[v];
  if (!p.is_plain) finish_sum<T, kVector>(p, bias, addend, value);
  tile::store_pack<T, kVector>(out, tile::narrow_pack<T>(value));
}
// The windows of a row that the mask has a bit for. Plain sums, the usual case, go out without a branch for each.
template <class T, int kColumns, int kVector>
__device__ __forceinline__ void store_row(const Params& p, const float (&sums)[kColumns][kVector],
                                          const float (&bias)[kVector], std::uint32_t mask, const T* addend,
                                          int addend_step, T* out, int out_step) {
  if (p.is_plain) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      if ((mask >> j & 1u) != 0) {
        tile::store_pack<T, kVector>(element_at(out, j, out_step), tile::narrow_pack<T>(sums[j]));
      }
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    if ((mask >> j & 1u) == 0) continue;
    store_sum<T, kVector>(p, sums[j], bias, addend + static_cast<std::int64_t>(j) * addend_step,
                          out + static_cast<std::int64_t>(j) * out_step);
  }
}
template <class T, int kVector>
__device__ __forceinline__ void load_bias(const Params& p, std::uint32_t channel, float (&bias)[kVector]) {
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    const std::int64_t at = (channel + static_cast<std::uint32_t>(v)) * p.bias_step;
    bias[v] = p.has_bias ? gemm::channel_value<T>(p.bias, at, p.float_vectors) : 0.0f;
  }
}

// Where a thread's outputs begin, and the addend's.
template <class T>
struct Target {
  T* out;
  const T* addend;
  __device__ __forceinline__ Target(const Params& p, std::uint32_t n, std::uint32_t channel, int row, int column,
                                    int slice = 0)
      : out(static_cast<T*>(p.out) + offset(p.rows_steps, n, channel, row, column, slice)),
        addend(static_cast<const T*>(p.addend) + offset(p.addend_steps, n, channel, row, column, slice)) {}
  __device__ static __forceinline__ std::int64_t offset(const Strides& steps, std::uint32_t n, std::uint32_t channel,
                                                        int row, int column, int slice = 0) {
    return n * steps.n + channel * steps.c + static_cast<std::int64_t>(row) * steps.h +
           static_cast<std::int64_t>(column) * steps.w + static_cast<std::int64_t>(slice) * steps.d;
  }
};

}  // namespace gpudnn::kernels::depthwise
