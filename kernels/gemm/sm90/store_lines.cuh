// From the accumulators of a consumer warpgroup to D = alpha * sum + beta * c of 16 bits whose rows are contiguous, but
// begin at no multiples of 16 bytes, as TMA wants them. Memory that is written in parts of its sectors of 32 bytes
// takes some 15 of them a nanosecond: 36 million elements took 1.1 ms as a thread's 8 neighbours, one after the other,
// and 0.23 ms as 32 side by side. So a warp stages 4 rows of the whole tile, and stores each in vectors that lie in D
// as vectors do; only what is before the first and behind the last one goes by elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/store_boxes.cuh"
#include "kernels/gemm/sm90/store_rows.cuh"
#include "kernels/ptx/st_global.cuh"

namespace gpudnn::kernels::gemm::sm90 {

constexpr int kLines = 4;        // rows that a warp stages
constexpr int kLinesAtOnce = 2;  // that it stores
static_assert(kLinesAtOnce == 2, "one row is left at most");

// Byte of a staged float: units of 16 bytes, dealt so that the fragments of 4 rows meet all banks.
template <class I>
__device__ __forceinline__ int line_place(int row, int column) {
  return row * I::kBN * 4 + ((column / 4 ^ 2 * row) << 4) + column % 4 * 4;
}

// Rows 4 * number to 4 * number + 3 of the warp's 16.
template <class I>
__device__ __forceinline__ void stage_lines(unsigned char* lines, const float* sum, int number, float alpha) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane / 16 != number % 2) return;
#pragma unroll
  for (int j = 0; j < I::kBN / 8; ++j) {
    const float* const pair = sum + 4 * j + number / 2 * 2;
    *reinterpret_cast<float2*>(lines + line_place<I>(lane / 4 % kLines, 8 * j + lane % 4 * 2)) =
        make_float2(alpha * pair[0], alpha * pair[1]);
  }
}

__device__ __forceinline__ float widen_16(std::uint32_t bits, bool is_f16) {
  const auto half = static_cast<std::uint16_t>(bits);
  return is_f16 ? tile::widen<float>(tile::Half{half}) : tile::widen<float>(tile::BFloat16{half});
}
__device__ __forceinline__ std::uint32_t narrow_16(float value, bool is_f16) {
  return is_f16 ? tile::narrow<tile::Half>(value).bits : tile::narrow<tile::BFloat16>(value).bits;
}

// Some staged rows of `columns` elements, with beta * c unless c is null, to `to`: what all of them take of c is asked
// for at once. Steps from row to row are elements.
struct Lines {
  std::uint16_t* to;
  std::int64_t to_step;
  const std::uint16_t* c;
  std::int64_t c_step;
  float beta;
  int columns;
  bool is_f16;
};
template <class I, int kRows>
__device__ __forceinline__ void store_rows_of_lines(const unsigned char* lines, int row, const Lines& l) {
  constexpr int kVector = 8;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto shift_of = [](const std::uint16_t* line) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(line) / 2 % kVector);
  };
  uint4 addend[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int first = lane * kVector - shift_of(l.to + r * l.to_step);
    const std::uint16_t* const from = l.c + r * l.c_step + first;
    addend[r] = make_uint4(0, 0, 0, 0);
    if (l.c == nullptr || first < 0 || first + kVector > l.columns) continue;
    if (reinterpret_cast<std::uintptr_t>(from) % 16 == 0) addend[r] = *reinterpret_cast<const uint4*>(from);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    std::uint16_t* const to = l.to + r * l.to_step;
    const std::uint16_t* const c = l.c == nullptr ? nullptr : l.c + r * l.c_step;
    const int shift = shift_of(to);
    const bool has_vectors = c != nullptr && shift_of(c) == shift;
#pragma unroll 1
    for (int first = lane * kVector - shift; first < l.columns; first += 32 * kVector) {
      const bool whole = first >= 0 && first + kVector <= l.columns;
      float v[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i) {  // where there is none it may be any
        const int column = min(max(first + i, 0), I::kBN - 1);
        v[i] = *reinterpret_cast<const float*>(lines + line_place<I>(row + r, column));
      }
      if (whole && has_vectors) {
        const std::uint32_t word[] = {addend[r].x, addend[r].y, addend[r].z, addend[r].w};
#pragma unroll
        for (int i = 0; i < kVector; ++i) v[i] += l.beta * widen_16(word[i / 2] >> (i % 2 * 16), l.is_f16);
      } else if (c != nullptr) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          if (first + i >= 0 && first + i < l.columns) v[i] += l.beta * widen_16(c[first + i], l.is_f16);
        }
      }
      std::uint32_t vector[kVector / 2];
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) {
        vector[i] = narrow_16(v[2 * i], l.is_f16) | narrow_16(v[2 * i + 1], l.is_f16) << 16;
      }
      if (whole) {
        ptx::st_global(reinterpret_cast<uint4*>(to + first), make_uint4(vector[0], vector[1], vector[2], vector[3]));
        continue;
      }
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const int column = first + i;
        if (column >= 0 && column < l.columns) to[column] = static_cast<std::uint16_t>(vector[i / 2] >> (i % 2 * 16));
      }
    }
  }
}

template <class I>
__device__ __forceinline__ void store_lines(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                            const Sums<I>& sum, float alpha) {
  constexpr int kPasses = 16 / kLines;
  constexpr int kBytesOfWarp = kLines * I::kBN * 4;
  static_assert(4 * kBytesOfWarp <= I::kStaging && I::kBN % 64 == 0);
  const Matrix& d = p.epilogue.d;
  const Matrix& c = p.epilogue.c;
  const bool adds = !I::kPlain && p.epilogue.beta != 0.0f;
  const bool is_f16 = d.type == Element::f16;
  unsigned char* const lines = shared.staging[consumer] + threadIdx.x % 128 / 32 * kBytesOfWarp;
  // None in the second tile of a pair that has but one.
  const int columns = min(I::kBN, static_cast<int>(p.n) - static_cast<int>(work.n));
  const std::uint32_t first = first_row<I>(work, consumer);
#pragma unroll 1
  for (int pass = 0; pass < kPasses * I::kRowBlocks; ++pass) {
#pragma unroll
    for (int i = 0; i < kPasses * I::kRowBlocks; ++i) {
      if (pass == i) stage_lines<I>(lines, sum[i / kPasses], i % kPasses, alpha);
    }
    __syncwarp();
    const std::uint32_t m = first + pass / kPasses * 64 + pass % kPasses * kLines;
    auto* to = static_cast<std::uint16_t*>(d.data) + element_at(d, work.batch, m, work.n);
    const auto* from =
        adds ? static_cast<const std::uint16_t*>(c.data) + element_at(c, work.batch, m, work.n) : nullptr;
    Lines l = {to, d.m_stride, from, c.m_stride, p.epilogue.beta, columns, is_f16};
#pragma unroll 1
    for (int row = 0; row < kLines && m + row < p.m; row += kLinesAtOnce) {
      if (m + row + kLinesAtOnce <= p.m) {
        store_rows_of_lines<I, kLinesAtOnce>(lines, row, l);
      } else {
        store_rows_of_lines<I, 1>(lines, row, l);
      }
      l.to += kLinesAtOnce * d.m_stride;
      if (adds) l.c += kLinesAtOnce * c.m_stride;
    }
    __syncwarp();
  }
}

}  // namespace gpudnn::kernels::gemm::sm90
