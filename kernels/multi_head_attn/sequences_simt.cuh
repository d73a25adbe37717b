// Gather and scatter of sequences: the caller's order of axes to rows {batch, beam, step} and back.
//
//   gather:   row = within the length ? dropout(vector) : 0
//   scatter:  vector = within the length ? dropout(sum of the row's heads) + residual : padding
//
// A warp has a row. Where nothing but moving is asked for, a lane moves 16 bytes at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/multi_head_attn/sequences.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::mha {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / 32;

// A row's place.
struct Place {
  std::int64_t memory = 0;    // offset of the vector
  std::int64_t residual = 0;  // of the residual's
  bool inside = false;
};

__device__ __forceinline__ Place place_of(const MhaSequences& s, std::int64_t row) {
  const std::int64_t time = s.first_time + row % s.steps;
  const std::int64_t sequence = row / s.steps;
  const std::int64_t beam = sequence % s.beam;
  const std::int64_t batch = sequence / s.beam;
  return {time * s.strides[0] + batch * s.strides[1] + beam * s.strides[2],
          time * s.residual_strides[0] + batch * s.residual_strides[1] + beam * s.residual_strides[2],
          time < s.lengths[sequence]};
}

// Whether the sequences' vectors move as they are, 16 bytes at a time.
template <class T>
__device__ __forceinline__ bool moves_vectors(const MhaSequences& s) {
  constexpr int kElements = 16 / static_cast<int>(sizeof(T));
  const auto bits = reinterpret_cast<std::uintptr_t>(s.memory) | reinterpret_cast<std::uintptr_t>(s.rows);
  return s.columns % kElements == 0 && bits % 16 == 0 && s.heads == 1 && !s.has_dropout && s.residual == nullptr;
}

template <class T>
__device__ __forceinline__ tile::Compute<T> kept_scale(const MhaSequencesParams& p, const MhaSequences& s,
                                                       std::int64_t element) {
  using C = tile::Compute<T>;
  if (!s.has_dropout) return C(1);
  return mha_is_kept(*p.dropout, p.threshold, static_cast<std::uint64_t>(element)) ? static_cast<C>(p.scale) : C(0);
}

template <class T>
__device__ __forceinline__ void gather_row(const MhaSequencesParams& p, const MhaSequences& s, std::int64_t row,
                                           const Place& place) {
  using C = tile::Compute<T>;
  const T* const from = static_cast<const T*>(s.memory) + place.memory;
  T* const to = static_cast<T*>(s.rows) + row * s.columns;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (moves_vectors<T>(s)) {
    constexpr int kElements = 16 / static_cast<int>(sizeof(T));
    for (std::int64_t c = lane; c < s.columns / kElements; c += 32) {
      uint4 value = {0, 0, 0, 0};
      if (place.inside) value = reinterpret_cast<const uint4*>(from)[c];
      reinterpret_cast<uint4*>(to)[c] = value;
    }
    return;
  }
  for (std::int64_t c = lane; c < s.columns; c += 32) {
    C value = C(0);
    if (place.inside) {
      const C kept = kept_scale<T>(p, s, row * s.columns + c);
      value = kept == C(0) ? C(0) : kept * tile::widen<C>(from[c]);
    }
    to[c] = tile::narrow<T>(value);
  }
}

template <class T>
__device__ __forceinline__ void scatter_row(const MhaSequencesParams& p, const MhaSequences& s, std::int64_t row,
                                            const Place& place) {
  using C = tile::Compute<T>;
  const T* const from = static_cast<const T*>(s.rows) + row * s.columns * s.heads;
  T* const to = static_cast<T*>(s.memory) + place.memory;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (!place.inside) {
    const T padding = tile::narrow<T>(static_cast<C>(s.padding));
    for (std::int64_t c = lane; c < s.columns; c += 32) to[c] = padding;
    return;
  }
  if (moves_vectors<T>(s)) {
    constexpr int kElements = 16 / static_cast<int>(sizeof(T));
    for (std::int64_t c = lane; c < s.columns / kElements; c += 32) {
      reinterpret_cast<uint4*>(to)[c] = reinterpret_cast<const uint4*>(from)[c];
    }
    return;
  }
  const T* const residual = static_cast<const T*>(s.residual) + place.residual;
  for (std::int64_t c = lane; c < s.columns; c += 32) {
    C value = C(0);
    for (int head = 0; head < s.heads; ++head) value += tile::widen<C>(from[head * s.columns + c]);
    const C kept = kept_scale<T>(p, s, row * s.columns + c);
    value = kept == C(0) ? C(0) : kept * value;
    if (s.residual != nullptr) value += tile::widen<C>(residual[c]);
    to[c] = tile::narrow<T>(value);
  }
}

template <class T, bool kGather>
__global__ void __launch_bounds__(kThreads) mha_sequences(const __grid_constant__ MhaSequencesParams p) {
  const MhaSequences& s = p.sequences[blockIdx.y];
  const std::int64_t rows = std::int64_t{s.batch} * s.beam * s.steps;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowsPerBlock;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / 32; row < rows; row += step) {
    const Place place = place_of(s, row);
    if constexpr (kGather) {
      gather_row<T>(p, s, row, place);
    } else {
      scatter_row<T>(p, s, row, place);
    }
  }
}

}  // namespace gpudnn::kernels::mha
