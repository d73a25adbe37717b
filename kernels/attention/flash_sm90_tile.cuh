// What flash_sm90's kernels share: which columns a tile of rows sees, the order of tiles, operand descriptors, and the
// softmax of an accumulator fragment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/cvt_bf16.cuh"
#include "kernels/ptx/cvt_f16.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_5d.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/tile/stage_ring.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::flash_sm90 {

constexpr int kWarpgroup = 128;
constexpr int kPanelBytes = 128;  // of one row: 64 elements, swizzled by TMA
constexpr int kPanelColumns = 64;

// One sequence pair's lengths, and the columns that rows see: as kernels::visible_columns, in 32 bits.
struct Sequence {
  int length_q, length_kv, shift;
};
__device__ __forceinline__ Sequence sequence_of(const FlashMask& mask, int batch) {
  Sequence s{mask.length_q, mask.length_kv, 0};
  if (mask.lengths_q != nullptr) s.length_q = min(max(mask.lengths_q[batch], 0), mask.length_q);
  if (mask.lengths_kv != nullptr) s.length_kv = min(max(mask.lengths_kv[batch], 0), mask.length_kv);
  if (mask.bottom_right) s.shift = s.length_kv - s.length_q;
  return s;
}
__device__ __forceinline__ int first_column(const FlashMask& mask, const Sequence& s, int row) {
  return mask.has_left ? max(row + s.shift - mask.left + 1, 0) : 0;
}
__device__ __forceinline__ int end_column(const FlashMask& mask, const Sequence& s, int row) {
  return mask.has_right ? min(row + s.shift + mask.right + 1, s.length_kv) : s.length_kv;
}
__device__ __forceinline__ int first_row(const FlashMask& mask, const Sequence& s, int column) {
  return mask.has_right ? max(column - s.shift - mask.right, 0) : 0;
}
__device__ __forceinline__ int end_row(const FlashMask& mask, const Sequence& s, int column) {
  return mask.has_left ? min(column - s.shift + mask.left, s.length_q) : s.length_q;
}

// Descriptors of a K-major operand: panels of `rows` rows, 64 elements of k each. Step `k` is of 16 elements.
template <int kRows>
__device__ __forceinline__ std::uint64_t k_major_step(std::uint64_t base, int k) {
  return base + static_cast<std::uint64_t>(k / 4 * (kRows * kPanelBytes / 16) + k % 4 * 2);
}
// Of an MN-major operand: rows are k, panels 64 elements of n each.
__device__ __forceinline__ std::uint64_t mn_major_step(std::uint64_t base, int k) {
  return base + static_cast<std::uint64_t>(k * (16 * kPanelBytes / 16));
}

// Two floats as two 16-bit elements, the first one low.
template <class T>
__device__ __forceinline__ std::uint32_t pack_halves(float low, float high) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    return ptx::cvt_rn_f16x2_f32(high, low);
  } else {
    return ptx::cvt_rn_bf16x2_f32(high, low);
  }
}

// The accumulator as the A operand of the next product, a step of 16 columns in each entry.
template <class T, int kColumns>
__device__ __forceinline__ void to_operand(const float (&s)[kColumns / 2], std::uint32_t (&a)[kColumns / 16][4]) {
#pragma unroll
  for (int i = 0; i < kColumns / 16; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) a[i][e] = pack_halves<T>(s[8 * i + 2 * e], s[8 * i + 2 * e + 1]);
  }
}

// Byte offset of a 16-byte chunk in panels of kRows rows that TMA has swizzled.
template <int kRows>
__device__ __forceinline__ std::uint32_t swizzled_chunk(int row, int chunk) {
  return static_cast<std::uint32_t>(chunk / 8 * kRows * kPanelBytes + row * kPanelBytes + ((chunk ^ row) & 7) * 16);
}

// Where this thread's elements of an accumulator are: rows `row` and row + 8, columns 8 j + `column` and the next.
struct FragmentPlace {
  int warpgroup, warp, lane;
  // `first`: the first thread of the consumers.
  __device__ __forceinline__ explicit FragmentPlace(int first = kWarpgroup)
      : warpgroup((static_cast<int>(threadIdx.x) - first) / kWarpgroup),
        warp(static_cast<int>(threadIdx.x) % kWarpgroup / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {}
  __device__ __forceinline__ int row() const { return warpgroup * 64 + warp * 16 + lane / 4; }
  __device__ __forceinline__ int column() const { return lane % 4 * 2; }
};

}  // namespace gpudnn::kernels::flash_sm90
