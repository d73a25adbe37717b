// The epilogue of the Hopper data gradient for images of few channels: from the sums in registers, through shared
// memory, to rows of dx.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/linear_combination.cuh"
#include "kernels/conv/small_c/small_c_dgrad_sm90.hpp"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::small_c_dgrad {

template <class E, int kShape>
struct Instance {
  using T = E;
  static constexpr int kBlocks = kShapes[kShape].row_blocks;
  static constexpr int kN = kShapes[kShape].positions;
  static constexpr int kThreads = kShapes[kShape].most_warpgroups * kWarpgroup;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kHeld = (sizeof(T) == 2 ? 2 : 3) * kBlocks;  // vectors of dx whose places a thread remembers
  static constexpr std::uint32_t kHalvesOctet = halves_octet_bytes(kN);
  static constexpr std::uint32_t kFloatsOctet = floats_octet_bytes(kN);
};

template <class I>
using Sums = float[I::kBlocks][I::kN / 2];

template <class I>
__device__ __forceinline__ void clear(Sums<I>& sum) {
#pragma unroll
  for (int i = 0; i < I::kBlocks * I::kN / 2; ++i) sum[i / (I::kN / 2)][i % (I::kN / 2)] = 0;
}

// A row of positions whose sums lie in the staging area.
struct Place {
  int n, i, column;
};

// The staging area: octets of rows of the slot; in each, by positions, 8 sums side by side. Rounded ones have 16 bytes
// a position; floats 32, and 32 more after four positions, which spreads a warp's over all banks. The first kGuard
// positions are nobody's: so that the first vector of a row of dx, which may begin before the tile, finds something.
template <class I>
__device__ __forceinline__ std::uint32_t staged_at(bool rounded, std::uint32_t position, std::uint32_t row) {
  return rounded ? row / 8 * I::kHalvesOctet + position * 16 + row % 8 * 2
                 : row / 8 * I::kFloatsOctet + (position + position / 4) * 32 + row % 8 * 4;
}

// Clears the slot that begins at row `slot` of the sums; its sums go to the staging area if `stores`.
template <class I>
__device__ __forceinline__ void finish_slot(const Params& p, std::uint32_t slot, std::uint32_t warp, bool stores,
                                            unsigned char* staging, Sums<I>& sum) {
  constexpr std::uint32_t kColumns = I::kN / 8;
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t half = 0; half < 2 * I::kBlocks; ++half) {
    const std::uint32_t block = half / 2;
    const std::uint32_t first = half % 2 * 2;
    const std::uint32_t row = block * 64 + warp * 16 + half % 2 * 8 - slot;
    if (row >= static_cast<std::uint32_t>(p.group)) continue;
    if (stores) {
      bool is_staged = false;
      if constexpr (sizeof(typename I::T) == 2) {
        if (p.rounded) {
          is_staged = true;
          const std::uint32_t to = ptx::shared_address(staging) + staged_at<I>(true, kGuard + lane, row);
#pragma unroll
          for (std::uint32_t q = 0; q < (kColumns + 3) / 4; ++q) {
            std::uint32_t words[4];
#pragma unroll
            for (std::uint32_t i = 0; i < 4; ++i) {
              const std::uint32_t j = 4 * q + i < kColumns ? 4 * q + i : kColumns - 1;  // the last ones are nobody's
              const float pair[2] = {sum[block][4 * j + first], sum[block][4 * j + first + 1]};
              words[i] = tile::narrow_pack<typename I::T>(pair).words[0];
            }
            ptx::stmatrix_x4_trans(to + q * 32 * 16, words[0], words[1], words[2], words[3]);
          }
        }
      }
      if (!is_staged) {
        unsigned char* const to = staging + staged_at<I>(false, kGuard + lane % 4 * 2, row + lane / 4);
#pragma unroll
        for (std::uint32_t j = 0; j < kColumns; ++j) {
          *reinterpret_cast<float*>(to + j * 320) = sum[block][4 * j + first];
          *reinterpret_cast<float*>(to + j * 320 + 32) = sum[block][4 * j + first + 1];
        }
      }
    }
#pragma unroll
    for (std::uint32_t j = 0; j < kColumns; ++j) sum[block][4 * j + first] = sum[block][4 * j + first + 1] = 0;
  }
}

// The sum by its definition.
template <class T>
__device__ __forceinline__ float data_sum(const Params& p, int n, int h, int w, int c) {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  const int i = static_cast<int>(p.stride_h_div.divmod(static_cast<std::uint32_t>(h + p.pad_h), &a));
  const int j = static_cast<int>(p.stride_w_div.divmod(static_cast<std::uint32_t>(w + p.pad_w), &b));
  const T* const dy = static_cast<const T*>(p.dy) + n * p.ys.n;
  const T* const filter = static_cast<const T*>(p.w) + (p.w_base + static_cast<std::int64_t>(c) * p.ws.c);
  float sum = 0;
#pragma unroll 1
  for (int r = static_cast<int>(a), row = i; r < p.taps_h; r += p.stride_h, --row) {
    if (row < 0 || row >= p.out_h) continue;
#pragma unroll 1
    for (int s = static_cast<int>(b), column = j; s < p.taps_w; s += p.stride_w, --column) {
      if (column < 0 || column >= p.out_w) continue;
      const T* from = dy + (static_cast<std::int64_t>(row) * p.ys.h + static_cast<std::int64_t>(column) * p.ys.w);
      const T* tap = filter + (static_cast<std::int64_t>(r) * p.ws.h + static_cast<std::int64_t>(s) * p.ws.w);
#pragma unroll 1
      for (int k = 0; k < p.filters; ++k, ++from, tap += p.ws.n) {
        sum += tile::widen<float>(*from) * tile::widen<float>(*tap);
      }
    }
  }
  return sum;
}

// The elements of a row of dx that a tile has, numbered as they lie.
struct Run {
  int begin, end;
  int first;  // vectors are aligned from here on
  int guard;  // from an element of dx to a staged one
};
template <class I>
__device__ __forceinline__ Run run_of(const Params& p, int column) {
  const int of_position = static_cast<int>(p.class_row.divisor);
  const int from = ((p.first_j + column * p.tile_w) * p.stride_w - p.pad_w) * p.channels;
  return {max(from, 0), min(from + p.tile_w * of_position, p.image_w * p.channels), from & -I::kVector,
          kGuard * of_position - from};
}

// Which 16 bytes of the rows of dx a thread stores in each row of positions, and where their sums lie: a few
// vectors, as long as they are whole and nothing but a store is left to do. They stay the same for a segment.
template <class I>
struct Vectors {
  std::uint32_t from[I::kHeld][I::kVector / 2];  // two offsets in the staging area each
  int x[I::kHeld];                               // element
  std::uint32_t a[I::kHeld];                     // row of dx
  bool exists[I::kHeld];
};
template <class I>
__device__ __forceinline__ Vectors<I> vectors_of(const Params& p, int column) {
  Vectors<I> vectors;
  const Run run = run_of<I>(p, column);
#pragma unroll
  for (std::uint32_t k = 0; k < I::kHeld; ++k) {
    const std::uint32_t i = threadIdx.x % kWarpgroup + k * kWarpgroup;
    std::uint32_t vector = 0;
    const std::uint32_t a = p.row_vectors.divmod(i, &vector);
    const int x = run.first + static_cast<int>(vector) * I::kVector;
    const bool is_plain = sizeof(typename I::T) == 2 ? p.rounded : p.vectors;
    vectors.a[k] = a;
    vectors.x[k] = x;
    vectors.exists[k] = is_plain && p.staging_bytes <= 0xffff && a < static_cast<std::uint32_t>(p.stride_h) &&
                        x >= run.begin && x + I::kVector <= run.end;
    std::uint32_t rest = 0;
    std::uint32_t position =
        p.class_row.divmod(vectors.exists[k] ? static_cast<std::uint32_t>(x + run.guard) : 0, &rest);
#pragma unroll
    for (int e = 0; e < I::kVector; ++e) {
      const std::uint32_t at = staged_at<I>(sizeof(typename I::T) == 2, position, a * p.class_pitch + rest);
      vectors.from[k][e / 2] = e % 2 == 0 ? at : vectors.from[k][e / 2] | at << 16;
      const bool ends = ++rest == p.class_row.divisor;
      rest = ends ? 0 : rest;
      position += ends ? 1 : 0;
    }
  }
  return vectors;
}

// Those of a row of positions; the bits of the ones that are done with. One with a sum that is no number, or infinite,
// is not.
template <class I>
__device__ __forceinline__ std::uint32_t store_vectors(const Params& p, const Place& place,
                                                       const unsigned char* staging, const Vectors<I>& vectors) {
  using T = typename I::T;
  std::uint32_t done = 0;
  tile::Pack<T, I::kVector> pack[I::kHeld];
  float check[I::kHeld] = {};
#pragma unroll
  for (int k = 0; k < I::kHeld; ++k) {
    if (!vectors.exists[k]) continue;
    float value[I::kVector];
#pragma unroll
    for (int e = 0; e < I::kVector; e += 2) {
      const unsigned char* const low = staging + (vectors.from[k][e / 2] & 0xffffu);
      const unsigned char* const high = staging + (vectors.from[k][e / 2] >> 16);
      if constexpr (sizeof(T) == 2) {
        pack[k].words[e / 2] = tile::word_of<T>(*reinterpret_cast<const T*>(low), *reinterpret_cast<const T*>(high));
        value[e] = tile::widen<float>(pack[k].get(e));
        value[e + 1] = tile::widen<float>(pack[k].get(e + 1));
      } else {
        value[e] = *reinterpret_cast<const float*>(low);
        value[e + 1] = *reinterpret_cast<const float*>(high);
        pack[k].data[e] = p.alpha * value[e];
        pack[k].data[e + 1] = p.alpha * value[e + 1];
      }
      check[k] += 0.0f * value[e] + 0.0f * value[e + 1];
    }
  }
#pragma unroll
  for (int k = 0; k < I::kHeld; ++k) {
    const int h = place.i * p.stride_h + static_cast<int>(vectors.a[k]) - p.pad_h;
    if (!vectors.exists[k] || check[k] != check[k]) continue;
    done |= 1u << k;
    if (h < 0 || h >= p.image_h) continue;
    T* const dx = static_cast<T*>(p.dx) + (place.n * p.xs.n + static_cast<std::int64_t>(h) * p.xs.h);
    tile::store_pack(dx + vectors.x[k], pack[k]);
  }
  return done;
}

// Element e of a row of dx, which is element `element` of what is staged.
template <class I>
__device__ __forceinline__ void store_element(const Params& p, const Place& place, const unsigned char* staging,
                                              std::uint32_t element, std::uint32_t row, int h, int e,
                                              typename I::T* dx) {
  using T = typename I::T;
  std::uint32_t rest = 0;
  const std::uint32_t position = p.class_row.divmod(element, &rest);
  float sum = 0;
  if (sizeof(T) == 2 && p.rounded) {
    sum = tile::widen<float>(*reinterpret_cast<const T*>(staging + staged_at<I>(true, position, row + rest)));
  } else {
    sum = *reinterpret_cast<const float*>(staging + staged_at<I>(false, position, row + rest));
  }
  std::uint32_t c = 0;
  const int w = static_cast<int>(p.channel_div.divmod(static_cast<std::uint32_t>(e), &c));
  if (sum != sum) sum = data_sum<T>(p, place.n, h, w, static_cast<int>(c));
  combine_and_store(p, sum, dx + (static_cast<std::int64_t>(w) * p.xs.w + static_cast<std::int64_t>(c) * p.xs.c));
}

// All threads of the warpgroup: what of the stride_h rows of dx is not done with.
template <class I>
__device__ __forceinline__ void store_rest(const Params& p, const Place& place, const unsigned char* staging,
                                           std::uint32_t done) {
  const Run run = run_of<I>(p, place.column);
  const std::uint32_t count = p.row_vectors.divisor * static_cast<std::uint32_t>(p.stride_h);
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x % kWarpgroup; i < count; i += kWarpgroup, done >>= 1) {
    if ((done & 1u) != 0) continue;
    std::uint32_t vector = 0;
    const std::uint32_t a = p.row_vectors.divmod(i, &vector);
    const int h = place.i * p.stride_h + static_cast<int>(a) - p.pad_h;
    if (h < 0 || h >= p.image_h) continue;
    typename I::T* const dx =
        static_cast<typename I::T*>(p.dx) + (place.n * p.xs.n + static_cast<std::int64_t>(h) * p.xs.h);
    const int x = run.first + static_cast<int>(vector) * I::kVector;
#pragma unroll 1
    for (int e = max(x, run.begin); e < min(x + I::kVector, run.end); ++e) {
      store_element<I>(p, place, staging, static_cast<std::uint32_t>(e + run.guard), a * p.class_pitch, h, e, dx);
    }
  }
}

template <class I>
__device__ __forceinline__ void store_row(const Params& p, const Place& place, const unsigned char* staging,
                                          const Vectors<I>& vectors) {
  store_rest<I>(p, place, staging, store_vectors<I>(p, place, staging, vectors));
}

}  // namespace gpudnn::kernels::small_c_dgrad
