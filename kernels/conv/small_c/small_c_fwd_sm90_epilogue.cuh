// The epilogue of the Hopper forward convolution for few channels: sums to y from registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/small_c/small_c_fwd_sm90_filter.cuh"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/pair_relu.cuh"
#include "kernels/gemm/epilogue/with_number.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::small_c_fwd {

// A tile's first pixel.
struct Tile {
  std::int32_t tile_w, tile_h, w, h, n;
};
__device__ __forceinline__ Tile tile_at(const Params& p, std::uint32_t index) {
  std::uint32_t w = 0;
  std::uint32_t h = 0;
  index = p.tiles_w.divmod(index, &w);
  index = p.tiles_h.divmod(index, &h);
  const auto tile_w = static_cast<std::int32_t>(w);
  const auto tile_h = static_cast<std::int32_t>(h);
  return {tile_w, tile_h, tile_w * p.tile_w, tile_h * p.tile_h, static_cast<std::int32_t>(index)};
}

// Vector `group` of the sums of a thread's pixel `half`.
template <class T, int kN>
__device__ __forceinline__ void take_vector(const float (&sum)[kN / 2], int group, int half, float (&v)[kVector<T>]) {
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i) v[i] = sum[(group * (kVector<T> / 2) + i / 2) * 4 + half * 2 + i % 2];
}

// alpha * sum + addend_scale * addend + bias, and the activation. What does not count is not read.
template <class T>
__device__ __forceinline__ void combine(const Params& p, const char* addend, const float* bias,
                                        float (&v)[kVector<T>]) {
  constexpr int kVec = kVector<T>;
#pragma unroll
  for (float& each : v) each *= p.alpha;
  if (p.addend_scale != 0.0f) {
    const auto pack = tile::load_pack<T, kVec>(reinterpret_cast<const T*>(addend));
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] += p.addend_scale * tile::widen<float>(pack.get(i));
  }
#pragma unroll
  for (int i = 0; i < kVec; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(bias + i);
    v[i] += four.x;
    v[i + 1] += four.y;
    v[i + 2] += four.z;
    v[i + 3] += four.w;
  }
  gemm::activate(p.activation, sizeof(T) == 2, v);
}

// What a thread knows of its pixels in unit 0 of any tile.
struct Lane {
  std::uint32_t window[2];  // bytes in the patch
  std::int32_t row[2], column[2];
  std::int64_t out[2];                        // bytes from the tile's first pixel to the thread's first filter
  std::int32_t filters;                       // from its first one on
  std::uint32_t first_mask[2], last_mask[2];  // by the shift
};
template <class T>
__device__ __forceinline__ Lane lane_of_thread(const Params& p, std::uint32_t first_filter) {
  const std::uint32_t t = threadIdx.x % 4;
  const std::uint32_t filter = first_filter + t * kVector<T>;
  Lane lane;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    std::uint32_t column = 0;
    const std::uint32_t row =
        p.tile_w_div.divmod(position_in_unit(p, threadIdx.x % 128 / 32, threadIdx.x % 32 / 4, half), &column);
    lane.window[half] = window_offset(p, kPerWord<T>, row, column) + t * 4;
    lane.row[half] = static_cast<std::int32_t>(row);
    lane.column[half] = static_cast<std::int32_t>(column);
    lane.out[half] = column * p.out_step[0] + row * p.out_step[1] + filter * static_cast<std::int64_t>(sizeof(T));
  }
  lane.filters = static_cast<std::int32_t>(p.filters) - static_cast<std::int32_t>(filter);
#pragma unroll
  for (std::uint32_t shift = 0; shift < 2; ++shift) {
    lane.first_mask[shift] = word_mask(p, kPerWord<T>, t, shift);
    lane.last_mask[shift] = word_mask(p, kPerWord<T>, (p.row_quads.divisor - 1) * 4 + t, shift);
  }
  return lane;
}

// The sums, or ReLU of them.
template <class T, int kN, gemm::PairRelu kRelu>
__device__ __forceinline__ void store_sums(const Params& p, const Tile& tile, const Unit& unit, const Lane& lane,
                                           const float (&sum)[kN / 2]) {
  constexpr int kVec = kVector<T>;
  const std::int32_t w = tile.w + unit.column;
  const std::int32_t h = tile.h + unit.row;
  char* const out = static_cast<char*>(p.out) + w * p.out_step[0] + h * p.out_step[1] + tile.n * p.out_step[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool exists = lane.column[half] < p.out_w - w && lane.row[half] < p.out_h - h;
    const std::int32_t filters = exists ? lane.filters : 0;
#pragma unroll
    for (int group = 0; group < kN / (4 * kVec); ++group) {
      if (group * 4 * kVec >= filters) continue;
      float v[kVec];
      take_vector<T, kN>(sum, group, half, v);
      tile::Pack<T, kVec> pack;
      if constexpr (kRelu == gemm::PairRelu::none) {
        pack = tile::narrow_pack<T>(v);
      } else {
#pragma unroll
        for (int i = 0; i < kVec / 2; ++i) pack.words[i] = gemm::round_pair<T, kRelu>(v[2 * i], v[2 * i + 1]);
      }
      tile::store_pack<T, kVec>(reinterpret_cast<T*>(out + lane.out[half] + group * 64), pack);
    }
  }
}

// Any epilogue, in one piece of code for all vectors: the functions of the epilogue stand in it once. `bias` is that of
// the block's filters.
template <class T, int kN>
__device__ __forceinline__ void store_unit(const Params& p, const Tile& tile, const Unit& unit, const Lane& lane,
                                           const float* bias, const float (&sum)[kN / 2]) {
  constexpr int kVec = kVector<T>;
  constexpr int kGroups = kN / (4 * kVec);
  const std::int32_t w = tile.w + unit.column;
  const std::int32_t h = tile.h + unit.row;
  char* const out = static_cast<char*>(p.out) + w * p.out_step[0] + h * p.out_step[1] + tile.n * p.out_step[2];
#pragma unroll 1
  for (int number = 0; number < 2 * kGroups; ++number) {
    const int group = number % kGroups;
    const bool first = number < kGroups;
    const std::int32_t column = first ? lane.column[0] : lane.column[1];
    const std::int32_t row = first ? lane.row[0] : lane.row[1];
    float v[kVec];
    gemm::with_number<2 * kGroups>(number,
                                   [&](auto known) { take_vector<T, kN>(sum, known % kGroups, known / kGroups, v); });
    const bool exists = column < p.out_w - w && row < p.out_h - h;
    if (!exists || group * 4 * kVec >= lane.filters) continue;
    const char* const addend =
        static_cast<const char*>(p.addend) + (w + column) * p.addend_step[0] + (h + row) * p.addend_step[1] +
        tile.n * p.addend_step[2] +
        (static_cast<std::int64_t>(p.filters) - lane.filters) * static_cast<std::int64_t>(sizeof(T));
    combine<T>(p, addend + group * 64, bias + threadIdx.x % 4 * kVec + group * 4 * kVec, v);
    tile::store_pack<T, kVec>(reinterpret_cast<T*>(out + (first ? lane.out[0] : lane.out[1]) + group * 64),
                              tile::narrow_pack<T>(v));
  }
}

// The addends of a thread's sums, by halves and groups of filters.
template <class T, int kN>
struct Addends {
  static constexpr int kGroups = kN / (4 * kVector<T>);
  uint4 pack[2][kGroups];
};
template <class T, int kN>
__device__ __forceinline__ void load_addends(const Params& p, const Tile& tile, const Unit& unit, const Lane& lane,
                                             Addends<T, kN>* addends) {
  constexpr int kVec = kVector<T>;
  const std::int32_t w = tile.w + unit.column;
  const std::int32_t h = tile.h + unit.row;
  const std::int64_t first_filter = static_cast<std::int64_t>(p.filters) - lane.filters;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const char* const from = static_cast<const char*>(p.addend) + (w + lane.column[half]) * p.addend_step[0] +
                             (h + lane.row[half]) * p.addend_step[1] + tile.n * p.addend_step[2] +
                             first_filter * static_cast<std::int64_t>(sizeof(T));
    const bool exists = lane.column[half] < p.out_w - w && lane.row[half] < p.out_h - h;
    const std::int32_t filters = exists ? lane.filters : 0;
#pragma unroll
    for (int group = 0; group < Addends<T, kN>::kGroups; ++group) {
      addends->pack[half][group] =
          group * 4 * kVec < filters ? *reinterpret_cast<const uint4*>(from + group * 64) : uint4{};
    }
  }
}

// The sums become f(alpha * sum + addend_scale * addend + bias), in place, but for a ReLU that rounding does.
template <class T, int kN>
__device__ __forceinline__ void combine_sums(const Params& p, const Addends<T, kN>& addends, const float* bias,
                                             float (&sum)[kN / 2]) {
  constexpr int kVec = kVector<T>;
#pragma unroll
  for (int group = 0; group < Addends<T, kN>::kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < kVec; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(bias + threadIdx.x % 4 * kVec + group * 4 * kVec + i);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const first = sum + (group * (kVec / 2) + i / 2) * 4 + half * 2;
        first[0] = fmaf(p.alpha, first[0], four.x);
        first[1] = fmaf(p.alpha, first[1], four.y);
        first[4] = fmaf(p.alpha, first[4], four.z);
        first[5] = fmaf(p.alpha, first[5], four.w);
      }
    }
  }
  if (p.addend_scale != 0.0f) {
#pragma unroll
    for (int group = 0; group < Addends<T, kN>::kGroups; ++group) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        tile::Pack<T, kVec> pack;
        memcpy(&pack, &addends.pack[half][group], sizeof pack);
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          float& each = sum[(group * (kVec / 2) + i / 2) * 4 + half * 2 + i % 2];
          each = fmaf(p.addend_scale, tile::widen<float>(pack.get(i)), each);
        }
      }
    }
  }
  if (p.has_curve) gemm::activate_common(p.activation, sum);
}

}  // namespace gpudnn::kernels::small_c_fwd
