// Data gradient of images with few channels for Hopper: wgmma with the filter as the first operand and rows of dy, as
// they lie in shared memory, as the second.
//
// With stride t, pixel h of dx meets tap r and row p of dy where h + pad = p * t + r. Let i = (h + pad) / t and
// a = (h + pad) % t: the taps are r = a + t * u, and p = i - u. The same holds along w with j, b, s, v and q. So row p
// of dy adds to the rows i = p + u of positions, u below taps_u, and all of these sums are one product:
//
//   D[(u, a, b, c), j] += sum over v and filters k of  F[(u, a, b, c), (v, k)] * dy[p, j - v, k]
//
// A warpgroup walks down the rows of dy and keeps the sums of taps_u rows of positions, each in a slot of `group` =
// t * t * channels rows of D. Row i = p is complete after row p: its slot is stored, cleared, and becomes row
// p + taps_u. What a slot means moves on by one u with each row, so the filter lies in shared memory as
// 2 * taps_u - 1 groups in the cyclic order of u, and a row's products begin at the group that slot 0 needs. Taps that
// a residue class does not have are zeros.
//
// dy is read once from memory, plus taps_u - 1 rows for each part that an image is cut into, and each row of it is read
// taps_v times from shared memory. For 7 x 7 taps of stride 2 and 3 channels D has 48 of 64 rows in use: a row of 112
// pixels and 64 filters takes 16 products of 60 cycles where its bytes take about 900 cycles of a multiprocessor's part
// of the memory rate.
//
// Data flow of a warpgroup, each with a part of the rows of all images, and shared memory of its own but for the
// filter:
//   dy         a thread of the last warp starts the copies of rows to come: boxes of 128 bytes of filters and the
//              tile's columns, zeros outside of the image, in the swizzle of 128 bytes. Column v of the taps is the
//              same box, read from another row on.
//   filter     by all threads, once: cleared, then each element goes to its places; TF32 is rounded to nearest.
//   sums       as floats through shared memory into rows of dx, as they lie in memory; while the next row's products
//              run, they are stored 16 bytes at a time.
//
// A zero of the filter times an infinite dy, which this dx does not see, would leave a NaN: such sums are done again,
// term by term.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include "kernels/conv/few_channels_data_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/cvt_tf32.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_5d.cuh"
#include "kernels/ptx/wgmma_positions.cuh"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/shared_memory.cuh"
#include "kernels/tile/stage_ring.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::few_channels_data {

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

struct Barriers {
  std::uint64_t full[kMostWarpgroups][kMostStages];
};
static_assert(sizeof(Barriers) <= kBarrierBytes, "the barriers' place");

// The first of each warpgroup.
enum NamedBarrier : int { kRowDone = 1, kSumsStaged = 1 + kMostWarpgroups, kLastStaged = 1 + 2 * kMostWarpgroups };

// --- the work --------------------------------------------------------------------------------------------------------

// Rows i of positions of an image, within a tile of columns.
struct Segment {
  int n, column, i_begin, i_end;
};
// Rows are numbered over all images and column tiles. Takes those from *cursor that belong to one image.
__device__ __forceinline__ Segment next_segment(const Params& p, std::uint32_t* cursor, std::uint32_t end) {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
  const std::uint32_t n = p.column_tiles.divmod(p.rows.divmod(*cursor, &row), &column);
  const std::uint32_t count = min(p.rows.divisor - row, end - *cursor);
  *cursor += count;
  const int first = p.first_i + static_cast<int>(row);
  return {static_cast<int>(n), static_cast<int>(column), first, first + static_cast<int>(count)};
}

// Of dy, that adds to one of them. The last one is i_end - 1, which may lie below dy: zeros then.
__device__ __forceinline__ int first_row(const Params& p, const Segment& s) {
  return max(s.i_begin - (p.taps_u - 1), 0);
}

// A warpgroup's share of the rows.
struct Share {
  std::uint32_t begin, end;
};
__device__ __forceinline__ Share share_of(const Params& p, std::uint32_t warpgroup) {
  const std::uint32_t streams = gridDim.x * p.warpgroups;
  const std::uint64_t stream = blockIdx.x * p.warpgroups + warpgroup;
  return {static_cast<std::uint32_t>(stream * p.all_rows / streams),
          static_cast<std::uint32_t>((stream + 1) * p.all_rows / streams)};
}

// --- rows of dy ------------------------------------------------------------------------------------------------------

// Where the copies have got to.
struct Loads {
  std::uint32_t cursor, end;
  int n = 0, column = 0;
  int row = 0, row_end = 0;  // of dy
  std::uint32_t block = 0;   // of filters
  std::uint32_t stage = 0;
};

// Starts the next copy, if there is one.
__device__ __forceinline__ void load_next(const Params& p, Loads* loads, std::uint64_t* full, unsigned char* stages) {
  while (loads->row >= loads->row_end) {
    if (loads->cursor >= loads->end) return;
    const Segment s = next_segment(p, &loads->cursor, loads->end);
    loads->n = s.n;
    loads->column = (p.first_j + s.column * p.tile_w) - (p.taps_v - 1);
    loads->row = first_row(p, s);
    loads->row_end = s.i_end;
  }
  std::uint64_t* const barrier = full + loads->stage;
  ptx::mbarrier_arrive_expect_tx(barrier, p.load_bytes);
  ptx::tma_tile_5d(stages + loads->stage * p.stage_bytes, &p.dy_map, barrier,
                   static_cast<std::int32_t>(loads->block) * p.filters_of_block, loads->column, loads->row, 0,
                   loads->n);
  if (++loads->stage == p.stages) loads->stage = 0;
  if (++loads->block == p.filter_blocks) {
    loads->block = 0;
    ++loads->row;
  }
}

__device__ __forceinline__ void load_row(const Params& p, Loads* loads, std::uint64_t* full, unsigned char* stages) {
#pragma unroll 1
  for (std::uint32_t block = 0; block < p.filter_blocks; ++block) load_next(p, loads, full, stages);
}

// --- the filter ------------------------------------------------------------------------------------------------------

// The filters from `first` on, `count` of them, in the order filter, r, s, c, to `raw`.
template <class T>
__device__ __forceinline__ void copy_filters(const Params& p, std::uint32_t first, std::uint32_t count,
                                             unsigned char* raw) {
  const std::uint32_t elements = count * p.filter_taps;
  if (p.filter_is_packed) {
    const auto* const from = reinterpret_cast<const uint4*>(static_cast<const T*>(p.w) + first * p.filter_taps);
    auto* const to = reinterpret_cast<uint4*>(raw);
#pragma unroll 4
    for (std::uint32_t i = threadIdx.x; i < elements / (16 / sizeof(T)); i += blockDim.x) to[i] = from[i];
    return;
  }
  const T* const w = static_cast<const T*>(p.w) + p.w_base;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < elements; i += blockDim.x) {
    std::uint32_t c = 0;
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const std::uint32_t k = first + p.taps_h_div.divmod(p.taps_w_div.divmod(p.channel_div.divmod(i, &c), &s), &r);
    reinterpret_cast<T*>(raw)[i] =
        w[k * p.ws.n + static_cast<std::int64_t>(c) * p.ws.c + static_cast<std::int64_t>(r) * p.ws.h +
          static_cast<std::int64_t>(s) * p.ws.w];
  }
}

// From there to their places: a warp takes a tap's channel of 64 filters, a lane two of them.
template <class T>
__device__ __forceinline__ void place_filters(const Params& p, std::uint32_t first, std::uint32_t count,
                                              const unsigned char* raw, unsigned char* filter) {
  constexpr std::uint32_t kFilters = kRowBytes / sizeof(T);
  constexpr std::uint32_t kLanes = 64;  // filters of a warp
  const std::uint32_t taps_u = static_cast<std::uint32_t>(p.taps_u);
  const std::uint32_t group = static_cast<std::uint32_t>(p.group);
  for (std::uint32_t k = first + threadIdx.x % 32 * 2; k < first + count; k += kLanes) {
    const T* const from = reinterpret_cast<const T*>(raw) + (k - first) * p.filter_taps;
    unsigned char* const panel = filter + k / kFilters * static_cast<std::uint32_t>(p.taps_v) * p.panel_bytes;
    const std::uint32_t byte = k % kFilters * static_cast<std::uint32_t>(sizeof(T));
#pragma unroll 2
    for (std::uint32_t tap = threadIdx.x / 32; tap < p.filter_taps; tap += blockDim.x / 32) {
      T low = from[tap];
      T high = from[tap + p.filter_taps];
      std::uint32_t c = 0;
      std::uint32_t s = 0;
      std::uint32_t a = 0;
      std::uint32_t b = 0;
      const std::uint32_t r = p.taps_w_div.divmod(p.channel_div.divmod(tap, &c), &s);
      const std::uint32_t u = p.stride_h_div.divmod(r, &a);
      const std::uint32_t v = p.stride_w_div.divmod(s, &b);
      const std::uint32_t row = u * group + a * p.class_pitch + b * p.channel_div.divisor + c;
      const auto place = [&](std::uint32_t of_row) {
        const std::uint32_t chunk = byte / 16 ^ (of_row & 7u);  // the swizzle of 128 bytes
        unsigned char* const to = panel + v * p.panel_bytes + of_row * kRowBytes + chunk * 16 + byte % 16;
        if constexpr (sizeof(T) == 2) {
          *reinterpret_cast<std::uint32_t*>(to) = tile::word_of<T>(low, high);
        } else {
          *reinterpret_cast<uint2*>(to) = make_uint2(ptx::cvt_rna_tf32(low), ptx::cvt_rna_tf32(high));
        }
      };
      place(row);
      if (u + 1 < taps_u) place(row + taps_u * group);
    }
  }
}

// By all threads of the block, by way of the staging areas; ends with them free.
template <class T>
__device__ __forceinline__ void build_filter(const Params& p, unsigned char* filter, unsigned char* raw) {
  const std::uint32_t bytes = p.filter_blocks * static_cast<std::uint32_t>(p.taps_v) * p.panel_bytes;
  for (std::uint32_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
    *reinterpret_cast<uint4*>(filter + at) = make_uint4(0, 0, 0, 0);
  }
  const std::uint32_t filters = static_cast<std::uint32_t>(p.filters);
#pragma unroll 1
  for (std::uint32_t first = 0; first < filters; first += p.raw_filters) {
    const std::uint32_t count = min(p.raw_filters, filters - first);
    copy_filters<T>(p, first, count, raw);
    __syncthreads();
    place_filters<T>(p, first, count, raw, filter);
    ptx::fence_proxy_async();  // wgmma reads through the asynchronous proxy
    __syncthreads();
  }
}

// --- products --------------------------------------------------------------------------------------------------------

template <class I>
using Sums = float[I::kBlocks][I::kN / 2];

constexpr std::uint32_t kStep = 32 / 16;  // descriptors count in 16 bytes
constexpr std::uint32_t kRow = kRowBytes / 16;

template <class I, int kSteps>
__device__ __forceinline__ void multiply_column(std::uint64_t filter, std::uint64_t dy, Sums<I>& sum) {
#pragma unroll
  for (std::uint32_t step = 0; step < kSteps; ++step) {
#pragma unroll
    for (std::uint32_t block = 0; block < I::kBlocks; ++block) {
      ptx::wgmma_positions<typename I::T, I::kN>(sum[block], filter + step * kStep + block * 64 * kRow,
                                                 dy + step * kStep);
    }
  }
}

// One block of filters: all columns of taps. Between rounds of a loop the products pause, so there is none for four
// columns.
template <class I>
__device__ __forceinline__ void multiply_block(const Params& p, std::uint64_t filter, std::uint64_t dy,
                                               std::uint32_t steps, Sums<I>& sum) {
  const std::uint32_t panel = p.panel_bytes / 16;
  if (steps == 4 && p.taps_v == 4) {
    ptx::wgmma_fence();
#pragma unroll
    for (std::uint32_t v = 0; v < 4; ++v) multiply_column<I, 4>(filter + v * panel, dy - v * kRow, sum);
  } else if (steps == 4) {
    std::int32_t left = p.taps_v;
#pragma unroll 1
    do {
      ptx::wgmma_fence();
      multiply_column<I, 4>(filter, dy, sum);
      filter += panel;
      dy -= kRow;
    } while (--left > 0);
  } else {
    std::uint32_t left = static_cast<std::uint32_t>(p.taps_v) * steps;
    std::uint32_t step = 0;
#pragma unroll 1
    do {
      ptx::wgmma_fence();
      multiply_column<I, 1>(filter + step * kStep, dy + step * kStep, sum);
      const bool ends = ++step == steps;
      filter += ends ? panel : 0;
      dy -= ends ? kRow : 0;
      step = ends ? 0 : step;
    } while (--left > 0);
  }
  ptx::wgmma_commit_group();
}

struct Ring {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
};

// A row of dy, for slot 0 from filter row `start` on. The products are under way when it returns.
template <class I>
__device__ __forceinline__ void multiply_row(const Params& p, std::uint64_t* full, const unsigned char* stages,
                                             std::uint64_t filter, Ring* ring, Sums<I>& sum) {
  const std::uint32_t panels = static_cast<std::uint32_t>(p.taps_v) * (p.panel_bytes / 16);
  std::uint32_t block = 0;
#pragma unroll 1
  do {
    tile::wait(full + ring->stage, ring->parity);
    const std::uint64_t dy = tile::operand_descriptor<kRowBytes>(stages + ring->stage * p.stage_bytes, 16) +
                             static_cast<std::uint32_t>(p.taps_v - 1) * kRow;
    multiply_block<I>(p, filter, dy, block + 1 == p.filter_blocks ? p.last_steps : 4u, sum);
    filter += panels;
    if (++ring->stage == p.stages) {
      ring->stage = 0;
      ring->parity ^= 1;
    }
  } while (++block < p.filter_blocks);
}

template <class I>
__device__ __forceinline__ void clear(Sums<I>& sum) {
#pragma unroll
  for (int i = 0; i < I::kBlocks * I::kN / 2; ++i) sum[i / (I::kN / 2)][i % (I::kN / 2)] = 0;
}

// --- the way out -----------------------------------------------------------------------------------------------------

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
    std::uint32_t position = p.class_row.divmod(vectors.exists[k] ? static_cast<std::uint32_t>(x + run.guard) : 0, &rest);
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
__device__ __forceinline__ std::uint32_t store_vectors(const Params& p, const Place& place, const unsigned char* staging,
                                                       const Vectors<I>& vectors) {
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
  T* const to = dx + (static_cast<std::int64_t>(w) * p.xs.w + static_cast<std::int64_t>(c) * p.xs.c);
  float value = p.alpha * sum;
  if (p.beta != 0.0f) value += p.beta * tile::widen<float>(*to);
  *to = tile::narrow<T>(value);
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

// --- the kernel ------------------------------------------------------------------------------------------------------

// One warpgroup's walk over its share.
template <class I>
__device__ __forceinline__ void walk(const Params& p, const Share& share, std::uint64_t* full, unsigned char* stages,
                                     std::uint64_t filter, unsigned char* staging, int warp, Loads* loads) {
  const int warpgroup = warp / 4;
  const bool loads_rows = threadIdx.x % kWarpgroup == kWarpgroup - 32;
  Sums<I> sum;
  clear<I>(sum);
  Ring ring;
  // The copies into a row's stages start while the next row is multiplied, unless that one needs them.
  const bool loads_early = p.stages < 2 * p.filter_blocks;
  bool has_free_stages = false;
  Place staged = {};
  Vectors<I> vectors = {};
  bool is_staged = false;
  const std::uint32_t group = static_cast<std::uint32_t>(p.group);
  const std::uint32_t all_slots = group * static_cast<std::uint32_t>(p.taps_u);
  std::uint32_t cursor = share.begin;
#pragma unroll 1
  while (cursor < share.end) {
    const Segment s = next_segment(p, &cursor, share.end);
    std::uint32_t slot = 0;  // first row of that of row `row` of positions
#pragma unroll 1
    for (int row = first_row(p, s); row < s.i_end; ++row) {
      multiply_row<I>(p, full, stages, filter + (slot == 0 ? 0 : all_slots - slot) * kRow, &ring, sum);
      // While they are under way, the row before is stored.
      ptx::barrier_sync(kSumsStaged + warpgroup, kWarpgroup);
      if (loads_rows && has_free_stages) load_row(p, loads, full, stages);
      if (is_staged) store_row<I>(p, staged, staging, vectors);
      ptx::wgmma_wait_group<0>();
      ptx::barrier_sync(kRowDone + warpgroup, kWarpgroup);  // with the row's stages, and with the staging area
      if (loads_rows && loads_early) load_row(p, loads, full, stages);
      has_free_stages = !loads_early;
      if (row == s.i_begin) vectors = vectors_of<I>(p, s.column);
      is_staged = row >= s.i_begin;
      staged = {s.n, row, s.column};
      finish_slot<I>(p, slot, static_cast<std::uint32_t>(warp % 4), is_staged, staging, sum);
      slot += group;
      if (slot == all_slots) slot = 0;
    }
    clear<I>(sum);  // of rows that belong to others
  }
  ptx::barrier_sync(kLastStaged + warpgroup, kWarpgroup);
  if (is_staged) store_row<I>(p, staged, staging, vectors);
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) few_channels_data_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(kAlignment) unsigned char shared[];
  auto& barriers = *reinterpret_cast<Barriers*>(shared);
  // Told to the compiler to be the same in all lanes: else it takes the walk for a divergent one, and waits for each
  // product.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int warpgroup = warp / 4;
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&p.dy_map);
    for (std::uint32_t i = 0; i < p.warpgroups * kMostStages; ++i) ptx::mbarrier_init(&barriers.full[0][0] + i, 1);
    ptx::fence_mbarrier_init();
  }
  if ((ptx::shared_address(shared) & (kAlignment - 1)) != 0) __trap();  // the swizzle counts on it
  __syncthreads();
  const Share share = share_of(p, static_cast<std::uint32_t>(warpgroup));
  std::uint64_t* const full = barriers.full[warpgroup];
  unsigned char* const stages =
      shared + kBarrierBytes + static_cast<std::uint32_t>(warpgroup) * p.stages * p.stage_bytes;
  Loads loads = {share.begin, share.end};
  if (threadIdx.x % kWarpgroup == kWarpgroup - 32) {
    for (std::uint32_t i = 0; i < p.stages; ++i) load_next(p, &loads, full, stages);
  }
  unsigned char* const filter = shared + p.filter_offset;
  build_filter<typename I::T>(p, filter, shared + p.staging_offset);
  unsigned char* const staging = shared + p.staging_offset + static_cast<std::uint32_t>(warpgroup) * p.staging_bytes;
  walk<I>(p, share, full, stages, tile::operand_descriptor<kRowBytes>(filter, 16), staging, warp, &loads);
}

using LaunchShape = void (*)(const Params& params, std::uint32_t blocks, CUstream_st* stream);

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  tile::allow_shared_memory<&few_channels_data_sm90<I>>(tile::kAllThatABlockMayHave);
  few_channels_data_sm90<I><<<blocks, params.warpgroups * kWarpgroup, params.shared_bytes, stream>>>(params);
}

// The instances of a type, made in the file of the type.
template <class T>
LaunchShape launch_of(int shape) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchShape kLaunches[] = {&launch_instance<Instance<T, static_cast<int>(kIndex)>>...};
    return kLaunches[shape];
  }
  (std::make_index_sequence<kShapeCount>());
}

}  // namespace gpudnn::kernels::few_channels_data
