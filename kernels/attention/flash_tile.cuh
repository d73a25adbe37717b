// What the flash kernels of every architecture share: which columns a tile of rows sees, and tiles of 16-bit elements
// in shared memory and in the fragments of matrix instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/attention/flash_mask.hpp"
#include "kernels/ptx/cvt_bf16.cuh"
#include "kernels/ptx/cvt_f16.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::flash {

constexpr int kPanelBytes = 128;  // of one row: 64 elements, swizzled as TMA does
constexpr int kPanelColumns = 64;
constexpr float kLog2E = 1.4426950408889634F;

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

// Of four words on each of four neighbouring lanes, word u of lane t becomes word t of lane u.
__device__ __forceinline__ void transpose_quad(std::uint32_t (&words)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int distance = 1; distance <= 2; ++distance) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const int low = distance == 1 ? 2 * pair : pair;
      const int high = low + distance;
      const std::uint32_t sent = upper ? words[low] : words[high];
      const std::uint32_t got = __shfl_xor_sync(0xffffffffu, sent, distance);
      words[low] = upper ? got : words[low];
      words[high] = upper ? words[high] : got;
    }
  }
}

// 8 elements to where they lie side by side; kAnyLayout: the first `count` of them to places that are `step` apart.
template <bool kAnyLayout>
__device__ __forceinline__ void write_chunk(std::uint16_t* to, const uint4& value, bool aligned, std::int64_t step,
                                            int count) {
  if (aligned && (!kAnyLayout || count >= 8)) {
    *reinterpret_cast<uint4*>(to) = value;
    return;
  }
  const std::uint32_t words[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    if (!kAnyLayout || e < count) to[e * step] = static_cast<std::uint16_t>(words[e / 2] >> (e % 2 * 16));
  }
}

}  // namespace gpudnn::kernels::flash
