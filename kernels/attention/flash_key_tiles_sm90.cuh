// What flash_fused_backward_sm90 and flash_wide_backward_sm90 share: which tile of keys a ticket is, in which order the
// tiles of queries that see it are visited, what a bound hides, the turns in which dq is added, and what is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_sections.hpp"
#include "kernels/attention/flash_sm90_tile.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/bulk_reduce.cuh"
#include "kernels/ptx/gpu_scope.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::flash_sm90 {

// A value that is made anew in each tile: kept over the loop, as the compiler prefers, it would cost a register.
__device__ __forceinline__ int opaque(int value) {
  auto word = static_cast<std::uint32_t>(value);
  ptx::pin(word);
  return static_cast<int>(word);
}

// Tickets run over ascending tiles of keys within each head; the heads of a section go together.
struct KeyTilePlace {
  int index, part, head, batch;
};
template <class Params>
__device__ __forceinline__ KeyTilePlace key_tile_place(const Params& p, int ticket) {
  const FlashTilePlace place = place_of(p.sections, ticket);
  std::uint32_t part;
  const std::uint32_t head = p.by_parts.divmod(static_cast<std::uint32_t>(place.head), &part);
  return {place.tile, static_cast<int>(part), static_cast<int>(head), place.batch};
}

// Query tiles [first, end) that see any key of a tile. They are visited downwards from `start` to `first`, then from
// the end to `last`, or upwards from `first` to the end; without any, `start` is -1.
struct QueryTiles {
  int first, end, start, last, step;
  // The one that is visited after tile j; -1: none.
  __device__ __forceinline__ int after(int j) const {
    if (j == last) return -1;
    return j + step < first ? end - 1 : j + step;
  }
  // Of those without a window, the ones from `from` on, `tiles` at most.
  __device__ __forceinline__ void keep(int from, int tiles) {
    first = max(first, from);
    end = min(end, from + tiles);
    start = start < 0 || end <= first ? -1 : end - 1;
    last = first;
  }
  __device__ __forceinline__ void ascend() {
    if (start < 0) return;
    start = first;
    last = end - 1;
    step = 1;
  }
};
// Of `rows` keys from `row` on. Tiles of queries start `lead` rows before the first query. Tiles of keys start at
// places that are `period` apart, down from the last tile of queries: where a window moves with the keys, those that go
// together are at the same queries, which the L2 holds, as they are where all see the last tile.
template <int kStream>
__device__ __forceinline__ QueryTiles query_tiles(const FlashMask& mask, const Sequence& s, int row, int rows, int lead,
                                                  int period) {
  const int last_key = min(row + rows, s.length_kv) - 1;
  const int first = first_row(mask, s, row);
  const int end = end_row(mask, s, last_key);
  if (last_key < row || end <= first) return {0, 0, -1, -1, -1};
  QueryTiles tiles;
  tiles.step = -1;
  tiles.first = (first + lead) / kStream;
  tiles.end = (end + lead + kStream - 1) / kStream;
  const int of_sequence = (s.length_q + lead + kStream - 1) / kStream;
  tiles.start = of_sequence - 1 - (of_sequence - tiles.end + period - 1) / period * period;
  if (tiles.start < tiles.first) tiles.start = tiles.end - 1;
  tiles.last = tiles.start == tiles.end - 1 ? tiles.first : tiles.start + 1;
  return tiles;
}

// Whether a bound or a length cuts the scores of kRows keys and kStream queries. Keys beyond the length are hidden too:
// their P would be exp(-stats), which may be infinite.
template <int kRows, int kStream>
__device__ __forceinline__ bool is_cut(const FlashMask& mask, const Sequence& s, int key, int query) {
  const int last = key + kRows - 1;
  return last >= s.length_kv || query < first_row(mask, s, last) || query + kStream > end_row(mask, s, key);
}
// Where a bound or a length hides a score, P is 0. `key`, `query`: of the thread's first element.
template <int kStream>
__device__ __forceinline__ void hide(const FlashMask& mask, const Sequence& s, int key, int query,
                                     float (&p)[kStream / 2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = key + 8 * half;
    const int begin = first_row(mask, s, row) - query;
    const int end = row < s.length_kv ? end_row(mask, s, row) - query : begin;
#pragma unroll
    for (int i = 0; i < kStream / 8; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& value = p[4 * i + 2 * half + e];
        value = 8 * i + e < end && 8 * i + e >= begin ? value : 0.0F;
      }
    }
  }
}

// The turns in which dq's tiles are added in device memory, told by a word that counts.
__device__ __forceinline__ void await_turn(const std::uint32_t* word, int turn) {
  while (ptx::ld_acquire_gpu(word) != static_cast<std::uint32_t>(turn)) {
  }
  // What the other block's TMA wrote is before what this one's adds.
  ptx::fence_proxy_async_global();
}
// Until `from` may be written again.
__device__ __forceinline__ void start_adding(float* to, const float* from, int bytes, bool stores) {
  if (stores) {
    ptx::bulk_store(to, from, bytes);
  } else {
    ptx::bulk_reduce_add_f32(to, from, bytes);
  }
  ptx::bulk_commit_group();
  ptx::bulk_wait_group_read<0>();
}
__device__ __forceinline__ void end_turn(std::uint32_t* word, int turn) {
  ptx::bulk_wait_group<0>();
  ptx::fence_proxy_async_global();
  ptx::st_release_gpu(word, static_cast<std::uint32_t>(turn) + 1);
}

// A gradient of 64 keys into panels of kPanelRows rows in shared memory.
template <class T, int kPanelRows, int kFloats>
__device__ __forceinline__ void stage_gradient(unsigned char* to, const FragmentPlace& place, const bool (&inside)[2],
                                               float factor, const float (&out)[kFloats]) {
  const std::uint32_t base = ptx::shared_address(to);
  const int lane = opaque(place.lane);
  const int row = place.warp * 16 + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
  for (int i = 0; i < kFloats / 8; ++i) {
    std::uint32_t words[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float low = inside[e % 2] ? out[8 * i + 2 * e] * factor : 0.0F;
      const float high = inside[e % 2] ? out[8 * i + 2 * e + 1] * factor : 0.0F;
      words[e] = pack_halves<T>(low, high);
    }
    ptx::stmatrix_x4(base + swizzled_chunk<kPanelRows>(row, 2 * i + lane / 16), words[0], words[1], words[2], words[3]);
  }
}
// The same in float, `to` the place of the thread's first element.
template <int kFloats>
__device__ __forceinline__ void write_sums(float* to, const float (&out)[kFloats]) {
  constexpr int kDim = 2 * kFloats;
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
    *reinterpret_cast<float2*>(to + 8 * i) = make_float2(out[4 * i], out[4 * i + 1]);
    *reinterpret_cast<float2*>(to + 8 * kDim + 8 * i) = make_float2(out[4 * i + 2], out[4 * i + 3]);
  }
}

// Two rows of 16 columns of dq, from 8 lanes' fragments of its tile. `from` null: nothing was added. The tensor has
// `rows` and `columns` of them.
template <class T>
__device__ __forceinline__ void write_dq(const float4* from, float scale, const AttentionTensor& dq, std::int64_t at,
                                         int rows, int columns) {
  float values[2][16] = {};  // query, column
  if (from != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float4 its = from[4 * i];
      values[0][i] = its.x * scale;
      values[1][i] = its.y * scale;
      values[0][8 + i] = its.z * scale;
      values[1][8 + i] = its.w * scale;
    }
  }
  T* const to = static_cast<T*>(dq.data) + at;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(to) & 15) == 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (i >= rows) break;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (8 * half >= columns) break;
      float run[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) run[e] = values[i][8 * half + e];
      T* const its = to + i * dq.strides[2] + 8 * half;
      if (aligned) {
        tile::store_pack(its, tile::narrow_pack<T>(run));
        continue;
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) its[e] = tile::narrow<T>(run[e]);
    }
  }
}

}  // namespace gpudnn::kernels::flash_sm90
