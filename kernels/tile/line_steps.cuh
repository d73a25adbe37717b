// Where the steps of a LineNest lie in memory, several for each thread at a time, so that as many loads are under way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "kernels/tile/line_nest.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::tile {

template <int U>
struct LineSteps {
  unsigned inside = 0;     // bit u: step u exists
  std::int64_t offset[U];  // in elements from the window's beginning
  std::int64_t place[U];   // of its first element in the order of the loops, from the window's beginning
};

// The elements from `pointer` to the next whole pack.
template <class T, int N>
__device__ __forceinline__ std::uint32_t to_next_pack(const T* pointer) {
  return (0u - static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer) / sizeof(T))) & (N - 1u);
}

// Steps first, first + stride, ... of those below `end`. The window begins at `base`. `kSimple` leaves out what most
// tensors do not need: ragged lines, and more than one loop over them.
template <class T, int N, int U, bool kSimple = false>
__device__ __forceinline__ LineSteps<U> line_steps(const LineNest& nest, const T* base, std::uint32_t first,
                                                   std::uint32_t stride, std::uint32_t end) {
  LineSteps<U> steps;
  std::uint32_t line[U];
  std::uint32_t at[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    at[u] = first + u * stride;
    if (at[u] < end) steps.inside |= 1u << u;
    line[u] = 0;
    steps.offset[u] = 0;
  }
  if (nest.lines > 1) {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      line[u] = nest.steps.divmod(at[u], &at[u]);
      steps.offset[u] = kSimple ? line[u] * static_cast<std::uint32_t>(nest.line_step) : line[u] * nest.line_step;
    }
    if (!kSimple && nest.nested) {
      std::uint32_t index[U];
      std::int64_t offset[U][1];
#pragma unroll
      for (int u = 0; u < U; ++u) index[u] = line[u];
      nest.outer.template offsets_of<U>(index, offset);
#pragma unroll
      for (int u = 0; u < U; ++u) steps.offset[u] = offset[u][0];
    }
  }
#pragma unroll
  for (int u = 0; u < U; ++u) {
    std::uint32_t head = 0;
    if constexpr (N > 1 && !kSimple) {
      if (nest.ragged) {
        head = to_next_pack<T, N>(base + steps.offset[u]);
        if (at[u] >= (nest.length - head) / N) steps.inside &= ~(1u << u);
      }
    }
    steps.place[u] = static_cast<std::int64_t>(line[u]) * nest.length + (head + at[u] * std::int64_t{N});
    if constexpr (kSimple) {
      steps.offset[u] = static_cast<std::uint32_t>(steps.offset[u]) + at[u] * static_cast<std::uint32_t>(nest.step);
    } else {
      steps.offset[u] += head + at[u] * nest.step;
    }
  }
  return steps;
}

// widen_pack, by the instructions that take a word of two 16-bit elements as it is.
template <class C, class T, int N>
__device__ __forceinline__ void widen_words(const Pack<T, N>& pack, C (&values)[N]) {
  if constexpr (kPackHasWords<T, N> && std::is_same_v<C, float> && std::is_same_v<T, Half>) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float2 wide = ptx::cvt_f32_f16x2(pack.words[i]);
      values[2 * i] = wide.x;
      values[2 * i + 1] = wide.y;
    }
  } else if constexpr (kPackHasWords<T, N> && std::is_same_v<C, float> && std::is_same_v<T, BFloat16>) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      values[2 * i] = __uint_as_float(pack.words[i] << 16);
      values[2 * i + 1] = __uint_as_float(pack.words[i] & 0xffff0000u);
    }
  } else {
    widen_pack<C>(pack, values);
  }
}

// The edges of ragged lines are counted as 2 N for each line, of which those that the line has exist.
template <int N>
__device__ __forceinline__ std::uint32_t line_edges(const LineNest& nest) {
  return nest.lines * (2 * N);
}

struct LineEdge {
  bool inside;
  std::int64_t offset;
  std::int64_t place;
};

// Edge `which` of 2 N of the line that begins at `line`.
template <class T, int N>
__device__ __forceinline__ LineEdge edge_of_line(const T* line, std::uint32_t length, std::uint32_t which) {
  const std::uint32_t head = to_next_pack<T, N>(line);
  const std::uint32_t behind = head + (length - head) / N * N;  // the first element after the last whole pack
  const std::uint32_t at = which < N ? which : behind + (which - N);
  return {which < N ? which < head : at < length, at, at};
}

// Edge `index` of all; ragged lines fit one window.
template <class T, int N>
__device__ __forceinline__ LineEdge line_edge(const LineNest& nest, const T* base, std::uint32_t index) {
  const std::uint32_t line = index / (2 * N);
  const std::int64_t start = nest.lines > 1 ? nest.outer.offset_in(0, line) : 0;
  LineEdge edge = edge_of_line<T, N>(base + start, nest.length, index & (2 * N - 1));
  edge.offset += start;
  edge.place += static_cast<std::int64_t>(line) * nest.length;
  return edge;
}

}  // namespace gpudnn::tile
