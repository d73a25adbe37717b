// Joins what the threads of a normalization over segments gathered: over the block, and over the parts of a group that
// meet in global memory. In a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cooperative_groups.h>

#include "kernels/norm/pack.cuh"
#include "kernels/norm/segments.hpp"

namespace gpudnn::kernels {

// Where a thread stands among the units of a group.
struct SegmentPlace {
  std::uint32_t first;   // its unit of round 0
  std::uint32_t stride;  // from round to round
  std::uint32_t limit;   // no unit of its own from here on
  int position;          // in the segment, in units; meaningful where a group has several sets
};

// The set of the group that element `i` of the thread's units belongs to.
template <int kWidth>
struct SegmentSets {
  int first = 0;
  int boundary = kWidth;  // the element from which on it is the next set
  int step = 0;           // 1: every element has its own

  __device__ __forceinline__ SegmentSets(const NormSegments& segments, int position) {
    if (segments.per_set.divisor == 1) {
      first = position * kWidth;
      step = 1;
    } else if (segments.sets > 1) {
      std::uint32_t rest;
      first = static_cast<int>(segments.per_set.divmod(static_cast<std::uint32_t>(position * kWidth), &rest));
      boundary = static_cast<int>(segments.per_set.divisor - rest);
    }
  }
  __device__ __forceinline__ int operator()(int i) const { return step != 0 ? first + i : first + (i >= boundary); }
};

// The elements from `from` to `to` of a thread, which has as many rounds of each.
template <int kWidth>
__device__ __forceinline__ tile::Moments<float> join_elements(const tile::Moments<float> (&values)[kWidth], int from,
                                                              int to) {
  const float elements = static_cast<float>(to - from);
  const float share = 1.0f / elements;
  float mean = 0.0f, squares = 0.0f, around = 0.0f;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) mean += i >= from && i < to ? values[i].mean * share : 0.0f;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const bool counts = i >= from && i < to;
    const float distance = counts ? values[i].mean - mean : 0.0f;
    around += distance * distance;
    squares += counts ? values[i].squares : 0.0f;
  }
  return {elements * values[0].count, mean, squares + around * values[0].count};
}
template <int kWidth>
__device__ __forceinline__ tile::Totals<float> join_elements(const tile::Totals<float> (&values)[kWidth], int from,
                                                             int to) {
  tile::Totals<float> sum;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    sum.first += i >= from && i < to ? values[i].first : 0.0f;
    sum.second += i >= from && i < to ? values[i].second : 0.0f;
  }
  return sum;
}

// Joins what the threads gathered by element: block[set] becomes the part's value, visible to all threads.
template <int kWidth, class V>
__device__ __forceinline__ void join_block(const NormSegments& segments, const SegmentPlace& place, V (&values)[kWidth],
                                           V* scratch, V* block) {
  if (segments.per_set.divisor == 1) {
    tile::columns_reduce(values, static_cast<int>(segments.units.divisor), scratch, block);
    return;
  }
  if (segments.sets == 1) {
    tile::rows_reduce(join_elements(values, 0, kWidth), scratch, block);
    return;
  }
  // A thread's elements belong to one or two sets; a warp joins a set.
  const SegmentSets<kWidth> sets(segments, place.position);
  const int boundary = min(sets.boundary, kWidth);
  scratch[2 * threadIdx.x] = join_elements(values, 0, boundary);
  scratch[2 * threadIdx.x + 1] = {};
  if (boundary < kWidth) scratch[2 * threadIdx.x + 1] = join_elements(values, boundary, kWidth);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int units = static_cast<int>(segments.units.divisor);
  const int per_set = static_cast<int>(segments.per_set.divisor);
  const int rows = segments.active / units;
#pragma unroll 1
  for (int set = static_cast<int>(threadIdx.x) / 32; set < segments.sets; set += static_cast<int>(blockDim.x) / 32) {
    const int begin = set * per_set / kWidth;
    const int end = (set * per_set + per_set - 1) / kWidth + 1;
    V sum{};
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
#pragma unroll 1
      for (int unit = begin + lane; unit < end; unit += 32) {
        // The first unit of a set that does not begin with a pack is the second half of the one before.
        const bool starts_before = unit * kWidth < set * per_set;
        sum.merge(scratch[2 * (row * units + unit) + (starts_before ? 1 : 0)]);
      }
    }
#pragma unroll 1
    for (int step = 16; step > 0; step /= 2) sum.merge(sum.shuffled(step));
    if (lane == 0) block[set] = sum;
  }
  __syncthreads();
}

// Partials in global memory: two values of a part's set side by side. The number of elements follows from the place.
__device__ __forceinline__ float2 stored(const tile::Moments<float>& value) { return {value.mean, value.squares}; }
__device__ __forceinline__ float2 stored(const tile::Totals<float>& value) { return {value.first, value.second}; }
__device__ __forceinline__ void fetch(float2 from, float count, tile::Moments<float>* value) {
  *value = {count, from.x, from.y};
}
__device__ __forceinline__ void fetch(float2 from, float, tile::Totals<float>* value) { *value = {from.x, from.y}; }

// block[] of all parts of the group joined: whole[set] in every block. `partials` is the group's.
template <int kWidth, class V>
__device__ __forceinline__ void join_grid(const NormSegments& segments, int part, int parts, int rounds,
                                          float2* partials, V* scratch, const V* block, V* whole) {
  const int sets = segments.sets;
  const int thread = static_cast<int>(threadIdx.x);
  if (partials != nullptr && thread < sets) partials[part * sets + thread] = stored(block[thread]);
  cooperative_groups::this_grid().sync();
  if (partials == nullptr) return;
  const std::uint32_t total = segments.lines * segments.units.divisor;
  const auto active = static_cast<std::uint32_t>(segments.active);
  // The elements of a set that part p has.
  const float of_unit = static_cast<float>(kWidth) / static_cast<float>(sets);
  const auto count_of = [&](int p) {
    const std::uint32_t full = static_cast<std::uint32_t>(rounds - 1) * active;
    const std::uint32_t begin = full * static_cast<std::uint32_t>(parts) + static_cast<std::uint32_t>(p) * active;
    const std::uint32_t last = begin < total ? min(total - begin, active) : 0;
    return static_cast<float>(full + last) * of_unit;
  };
  const int stride = static_cast<int>(blockDim.x) / sets;
  const int set = thread % sets;
  V sum{};
  constexpr int kAtOnce = 4;  // reads under way
#pragma unroll 1
  for (int first = thread / sets; first < parts && thread < stride * sets; first += kAtOnce * stride) {
    float2 read[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * stride < parts) read[i] = __ldcg(partials + (first + i * stride) * sets + set);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * stride < parts) {
        V value;
        fetch(read[i], count_of(first + i * stride), &value);
        sum.merge(value);
      }
    }
  }
  if (sets <= 32) {
    V one[1] = {sum};
    tile::columns_reduce(one, sets, scratch, whole);
    return;
  }
  scratch[thread] = sum;
  __syncthreads();
  if (thread < sets) {
#pragma unroll 1
    for (int row = 1; row < stride; ++row) sum.merge(scratch[row * sets + thread]);
    whole[thread] = sum;
  }
  __syncthreads();
}

}  // namespace gpudnn::kernels
