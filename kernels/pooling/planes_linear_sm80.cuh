// Averages over windows 3x3 with step 1 and padding 1 of packed NCHW planes of 16-bit elements, straight from global
// memory.
//
// Such an average has as many elements as its input, so both are taken as one line of elements that runs on from row to
// row and plane to plane. A thread owns packs of 8 elements, wherever rows begin in them. The elements above and below
// a pack are 8 in a row as well, a row's width before and after, in two packs each, whose distance from a pack's
// boundary is the same for all threads. Sums down the columns come first, in float; those left and right of the pack
// come by shuffles from the neighbouring threads, so the first and the last thread of a warp only serve those. Where a
// row ends in the pack, at most once, the sums across leave out what belongs to the other row.
//
// The packs of a thread are 8 rows apart: so rows end at the same place in all of them, which is looked at once.
//
// Least bytes: both tensors once; rows above and below come from the L1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/halves.cuh"
#include "kernels/pooling/strips.cuh"

namespace gpudnn::kernels {

constexpr int kLinearThreads = 256;
constexpr int kLinearUseful = 30;  // threads of a warp
constexpr int kLinearPacks = 4;    // of a thread

template <class T>
struct LinearArgs {
  const T* x;
  T* out;
  float alpha;
  float beta;
  bool count_padding;
  std::int32_t height, width;
  std::int32_t packs;
  std::int32_t units;                     // threads that own packs
  std::int32_t skew_above, skew_below;    // elements from a pack's boundary
  std::int32_t packs_above, packs_below;  // from the pack to the first of the two
  tile::FastDivmod by_area, by_width;
};

// 8 elements of two packs.
template <int kWord>
__device__ __forceinline__ void shift_out(const std::uint32_t (&words)[8], std::uint32_t bits, std::uint32_t (&to)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = __funnelshift_r(words[i + kWord], words[i + kWord + 1], bits);
}
__device__ __forceinline__ void shift_out(const uint4& low, const uint4& high, std::int32_t skew,
                                          std::uint32_t (&to)[4]) {
  const std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  const auto bits = static_cast<std::uint32_t>(skew) * 16;
  if (skew < 4) {
    if (skew < 2) {
      shift_out<0>(words, bits, to);
    } else {
      shift_out<1>(words, bits, to);
    }
  } else if (skew < 6) {
    shift_out<2>(words, bits, to);
  } else {
    shift_out<3>(words, bits, to);
  }
}

template <class T>
__global__ void __launch_bounds__(kLinearThreads) pooling_planes_linear(const __grid_constant__ LinearArgs<T> args) {
  constexpr unsigned kAll = 0xffffffffu;
  constexpr int N = 8;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const auto warp = static_cast<std::int32_t>(blockIdx.x * (kLinearThreads / 32) + threadIdx.x / 32);
  const std::int32_t number = warp * kLinearUseful + lane - 1;
  const bool owns = lane > 0 && lane <= kLinearUseful && number < args.units;
  std::uint32_t in_line, in_plane, column;
  const auto unit = static_cast<std::uint32_t>(clamped(number, 0, args.units - 1));
  const std::uint32_t line = args.by_width.divmod(unit, &in_line);  // 8 rows have as many packs as a row has elements
  auto pack = static_cast<std::int32_t>(line) * kLinearPacks * args.width + static_cast<std::int32_t>(in_line);
  args.by_area.divmod(static_cast<std::uint32_t>(pack) * N, &in_plane);
  auto row = static_cast<std::int32_t>(args.by_width.divmod(in_plane, &column));
  const std::int32_t ends = args.width - static_cast<std::int32_t>(column);  // the next row's first element
  const std::int32_t last_row = args.height - 1;
  float scales[N];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const bool at_side = (j == 0 ? column == 0 : ends == j) || ends == j + 1;
    scales[j] = args.alpha * ((at_side && !args.count_padding ? 1.5f : 1.0f) * (1.0f / 9));
  }
  const auto* const x = reinterpret_cast<const uint4*>(args.x);

#pragma unroll 1
  for (int round = 0; round < kLinearPacks; ++round) {
    // A pack outside of the tensor stands for one whose elements are not used.
    const std::int32_t last_pack = args.packs - 1, at = min(pack, last_pack);
    const uint4 own = x[at];
    const uint4 above_low = x[max(at - args.packs_above, 0)], above_high = x[max(at - args.packs_above + 1, 0)];
    const uint4 below_low = x[min(at + args.packs_below, last_pack)];
    const uint4 below_high = x[min(at + args.packs_below + 1, last_pack)];
    const std::uint32_t middle[4] = {own.x, own.y, own.z, own.w};
    std::uint32_t above[4], below[4];
    shift_out(above_low, above_high, args.skew_above, above);
    shift_out(below_low, below_high, args.skew_below, below);
    // The pack's row, or the one that begins in it, is the first or the last of a plane.
    const bool edge = static_cast<std::uint32_t>(row - 1) >= static_cast<std::uint32_t>(last_row - 2);
    if (edge) {
      const auto mask = [](bool there) { return there ? kAll : 0u; };
      const std::uint32_t above_first = mask(row != 0), above_second = mask(row != last_row);
      const std::uint32_t below_first = mask(row != last_row), below_second = mask(row != last_row - 1);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t first = ends >= 2 * i + 2 ? kAll : ends == 2 * i + 1 ? 0xffffu : 0u;
        above[i] &= (first & above_first) | (~first & above_second);
        below[i] &= (first & below_first) | (~first & below_second);
      }
    }
    float sums[N + 2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 a = wide_pair<T>(above[i]), b = wide_pair<T>(middle[i]), c = wide_pair<T>(below[i]);
      sums[2 * i + 1] = a.x + b.x + c.x;
      sums[2 * i + 2] = a.y + b.y + c.y;
    }
    sums[0] = __shfl_up_sync(kAll, sums[N], 1);
    sums[N + 1] = __shfl_down_sync(kAll, sums[1], 1);
    float values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const bool begins = j == 0 ? column == 0 : ends == j;
      float sum = begins ? sums[j + 1] : sums[j] + sums[j + 1];
      if (ends != j + 1) sum += sums[j + 2];
      values[j] = sum * scales[j];
    }
    if (edge && !args.count_padding) {
      const float first = row == 0 || row == last_row ? 1.5f : 1.0f, second = row >= last_row - 1 ? 1.5f : 1.0f;
#pragma unroll
      for (int j = 0; j < N; ++j) values[j] *= j < ends ? first : second;
    }
    if (owns && pack <= last_pack) {
      T* const target = args.out + static_cast<std::int64_t>(pack) * N;
      if (args.beta != 0.0f) {
        float old[N];
        tile::widen_pack<float>(tile::load_pack<T, N>(target), old);
#pragma unroll
        for (int j = 0; j < N; ++j) values[j] += args.beta * old[j];
      }
      tile::store_pack<T, N>(target, tile::narrow_pack<T>(values));
    }
    pack += args.width;
    row += N;
    if (row >= args.height) row -= args.height;
  }
}

}  // namespace gpudnn::kernels
