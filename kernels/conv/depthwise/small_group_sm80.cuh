// Convolution of groups of 1, 2, 4, 8 or 16 channels, channels last, on tensor cores: forward, and the data gradient.
//
//   y[n, i, j, k] = sum over r, s, c of x[n, i * stride + r - pad, j * stride + s - pad, c] * w[k, c, r, s]
//
// Eight neighbouring channels are whole groups, so eight channels of y depend on the same eight of x alone. For each
// tap they are a product of 16 pixels x 8 channels by 8 x 8, in which the filter stands in blocks along the diagonal:
// with groups of one channel 7 of 8 products are by zero, which the tensor core does in the time that the FMA units
// need for the one, without the conversions and loads. Of a group of 16 channels each half of y's is a warp's, and its
// products are 16 pixels x 16 channels by 16 x 8.
//
// The 16 pixels lie below one another, in a column of the image (or in a column of each of two images, where images are
// low). So a fragment of column j, shifted by r rows, serves all taps (r, s), with the sums of output column j - s: a
// warp keeps the sums of 8 columns of 16 rows and the filter of 8 channels in registers, and loads a fragment for each
// image column and each r. A thread block stages the image's tile, with its borders as zeros, by cp.async, up to 8
// blocks of channels beside each other; rows are 1 modulo 8 chunks of 16 bytes apart, and with step 2 the odd rows lie
// behind the even ones, so that the 8 rows of a fragment lie in different banks. The results go through shared memory
// too, to leave as whole vectors: 16 bytes of a pixel at a time, as a warp has them, are half a sector, and the L2
// takes as long for one as for a line.
//
// In the data gradient of step 2 a tile is 16 x 8 blocks of 2 x 2 pixels of dx. The pixels at the same place of their
// blocks see the same taps, each second one, by a convolution of step 1: with 3 x 3 taps, 4, 2, 2 and 1 of them. They
// are added up and stored one place after the other, from one staged tile of dy.
//
// Zero times an infinity is a NaN, so an infinite element would spoil the other groups of its block. A warp that finds
// a sum that is not finite adds up its tile again, tap by tap without the zeros.
//
// Limits: whole blocks of 8 channels, filters of 3 x 3 to 7 x 7 (floats, as TF32, 3 x 3; groups of 16 with step 2 3 x
// 3), steps 1 and 2, no dilation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/conv/depthwise/small_group_sm80.hpp"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/cvt_tf32.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/ptx/mma_sync_m16n8k8.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::small_group {

template <int kRow>
struct Instance {
  static constexpr bool kIsDgrad = kTiles[kRow].is_dgrad;
  static constexpr int kTaps = kTiles[kRow].taps;
  static constexpr int kStride = kTiles[kRow].step();
  static constexpr int kWindow = kTiles[kRow].window();
  static constexpr int kDepth = kTiles[kRow].depth;
  // Image columns that a warp's windows see, and those that it loads: in pairs.
  static constexpr int kSeen = (kWarpColumns - 1) * kStride + kWindow;
  static constexpr int kPairs = (kSeen + 1) / 2;
  // The tap by which a pixel at `place` (0 or 1) of its block sees the pixel `at` of its window; negative: by none.
  static constexpr int tap(int place, int at) {
    if (!kIsDgrad) return at;
    return at < place ? -1 : place + 2 * (kWindow - 1 - at);
  }
};
// Rows and columns of blocks of dx have places 0 and 1; without blocks there is one place.
template <int kRowOfBlock, int kColumnOfBlock>
struct BlockPlace {
  static constexpr int kR = kRowOfBlock, kS = kColumnOfBlock;
};

struct Tile {
  int n, row, column;  // of the output: the first image, row and column
};
__device__ __forceinline__ Tile tile_at(const Params& p, std::uint32_t index) {
  std::uint32_t column = 0;
  std::uint32_t row = 0;
  const std::uint32_t n = p.row_tiles.divmod(p.column_tiles.divmod(index, &column), &row);
  return {static_cast<int>(n) * (kTileRows / p.part_rows), static_cast<int>(row) * p.part_rows,
          static_cast<int>(column) * p.parts * kWarpColumns};
}

// Calls body(exists, offset, chunk) for the pixels of a walk over a tile, of the thread's chunk of channels, where
// `offset` is the place in the tensor in elements, and `chunk` that in shared memory. The tile begins at `first` of the
// tensor, which may lie outside; neighbours on the walk are kRowStep rows or kColumnStep columns apart in the tensor.
// `rows`: that the walk goes down in an image; `gap`: chunks of shared memory that are left out between two images.
template <class T, int kRowStep, int kColumnStep, class Body>
__device__ __forceinline__ void for_pixels(const Params& p, const Walk& walk, int pitch, const Tile& first,
                                           const Strides& steps, int rows, int gap, int height, int width,
                                           int first_channel, Body&& body) {
  std::uint32_t chunk_of_pixel = 0;
  std::uint32_t first_column = 0;
  auto row = static_cast<int>(walk.columns.divmod(p.chunks_c.divmod(threadIdx.x, &chunk_of_pixel), &first_column));
  auto column = static_cast<int>(first_column);
  const int channel = first_channel + static_cast<int>(chunk_of_pixel) * (16 / static_cast<int>(sizeof(T)));
  const int images = channel < p.channels ? p.images - first.n : 0;
  const int walked = p.part_rows == kTileRows ? rows : 2 * rows;
  const int last = images > 1 ? walked : images * rows;
  const auto columns = static_cast<int>(walk.columns.divisor);
  const auto chunks = static_cast<int>(p.chunks_c.divisor);
  const std::int64_t from = first.n * steps.n + static_cast<std::int64_t>(first.row) * steps.h +
                            static_cast<std::int64_t>(first.column) * steps.w + channel;
  const std::int64_t from_next = from + steps.n - static_cast<std::int64_t>(rows) * kRowStep * steps.h;
  // Everything that depends on row and column goes along with them. Unsigned, as pixels outside may be far.
  const auto step_h = static_cast<std::uint32_t>(kRowStep * steps.h);
  const auto step_w = static_cast<std::uint32_t>(kColumnStep * steps.w);
  std::uint32_t offset = static_cast<std::uint32_t>(row) * step_h + first_column * step_w;
  const std::uint32_t offset_step =
      static_cast<std::uint32_t>(walk.step_rows) * step_h + static_cast<std::uint32_t>(walk.step_columns) * step_w;
  const std::uint32_t offset_wrap = step_h - static_cast<std::uint32_t>(columns) * step_w;
  int chunk = row * pitch + column * chunks + static_cast<int>(chunk_of_pixel);
  const int chunk_step = walk.step_rows * pitch + walk.step_columns * chunks;
  const int chunk_wrap = pitch - columns * chunks;
  while (row < walked) {
    const bool is_next = row >= rows;
    const int at_row = first.row + kRowStep * (is_next ? row - rows : row);
    const bool exists = row < last && static_cast<unsigned>(at_row) < static_cast<unsigned>(height) &&
                        static_cast<unsigned>(first.column + kColumnStep * column) < static_cast<unsigned>(width);
    body(exists, (is_next ? from_next : from) + static_cast<std::int32_t>(offset), is_next ? chunk + gap : chunk);
    row += walk.step_rows;
    column += walk.step_columns;
    offset += offset_step;
    chunk += chunk_step;
    if (column >= columns) {
      column -= columns;
      ++row;
      offset += offset_wrap;
      chunk += chunk_wrap;
    }
  }
}

// Starts the copies of what a tile sees of a tensor, every kRowStep-th row from (row, column) of its first image on;
// zeros where there is nothing. `rows`: of an image.
template <class T, int kRowStep>
__device__ __forceinline__ void stage_tensor(const Params& p, const void* tensor, const Strides& steps,
                                             const Walk& walk, int pitch, const Tile& first, int rows, int gap,
                                             int height, int width, int first_channel, std::uint32_t shared) {
  for_pixels<T, kRowStep, 1>(p, walk, pitch, first, steps, rows, gap, height, width, first_channel,
                             [&](bool exists, std::int64_t offset, int chunk) {
                               // Of no bytes nothing is read, wherever that is.
                               ptx::cp_async<16>(shared + 16 * static_cast<std::uint32_t>(chunk),
                                                 static_cast<const T*>(tensor) + offset, exists ? 16u : 0u);
                             });
}
template <class T, class I>
__device__ __forceinline__ void stage_image(const Params& p, const Tile& at, int first_channel, std::uint32_t shared) {
  Tile first = {at.n, at.row * I::kStride - p.pad_h, at.column * I::kStride - p.pad_w};
#pragma unroll 1
  for (int phase = 0; phase < I::kStride; ++phase) {
    const int rows = phase == 0 ? p.phase_rows : p.in_rows - p.phase_rows;
    stage_tensor<T, I::kStride>(p, p.image, p.image_steps, p.in_walk, p.in_pitch, first, rows,
                                (p.phase_rows - rows) * p.in_pitch, p.image_h, p.image_w, first_channel,
                                shared + 16 * static_cast<std::uint32_t>(phase * p.phase_chunks));
    ++first.row;
  }
  ptx::cp_async_commit_group();
}

// Of the product's operand b: element (k, n) of the taps, as channel `first` + n of the output sees channel first + k.
template <class T>
struct FilterElement {
  const T* first_tap;  // null: the channels are of different groups
  std::int64_t step_r, step_s;

  __device__ __forceinline__ FilterElement(const Params& p, int first, int k, int n, int taps) {
    const int outer = p.transposed ? k : n;
    const int inner = (p.transposed ? n : k) % p.group;
    const T* const at = static_cast<const T*>(p.filter) + (first + outer) * p.filter_k + inner * p.filter_c;
    const std::int64_t last = (taps - 1) * (p.filter_r + p.filter_s);
    first_tap = k / p.group != n / p.group || first >= p.channels ? nullptr : at + (p.mirrored ? last : 0);
    step_r = p.mirrored ? -p.filter_r : p.filter_r;
    step_s = p.mirrored ? -p.filter_s : p.filter_s;
  }
  __device__ __forceinline__ T tap(int r, int s) const {
    return first_tap != nullptr ? first_tap[r * step_r + s * step_s] : tile::narrow<T>(0.0f);
  }
};
// 16-byte chunks of a block of channels.
template <class T>
constexpr int kParts = kBlock* static_cast<int>(sizeof(T)) / 16;
// The same of the channels of a product, which are also the words of a lane's share of operand b; of operand a a lane
// has twice as many. Floats are rounded to TF32.
template <class T, class I>
constexpr int kWords = I::kDepth* static_cast<int>(sizeof(T)) / 16;
template <class T, class I>
using FilterWords = std::uint32_t[I::kTaps][I::kTaps][kWords<T, I>];
template <class T, class I>
__device__ __forceinline__ void load_filter(const Params& p, int first, FilterWords<T, I>& filter) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int in_group = first % I::kDepth;
  const int n = in_group + lane / 4;
#pragma unroll
  for (int word = 0; word < kWords<T, I>; ++word) {
    constexpr bool kIsFloat = std::is_same_v<T, float>;
    const int k = kIsFloat ? word * 4 + lane % 4 : word * 8 + lane % 4 * 2;
    const FilterElement<T> low(p, first - in_group, k, n, I::kTaps);
    const FilterElement<T> high(p, first - in_group, k + 1, n, I::kTaps);
#pragma unroll
    for (int r = 0; r < I::kTaps; ++r) {
#pragma unroll
      for (int s = 0; s < I::kTaps; ++s) {
        if constexpr (kIsFloat) {
          filter[r][s][word] = ptx::cvt_rna_tf32(low.tap(r, s));
        } else {
          filter[r][s][word] = tile::word_of(low.tap(r, s), high.tap(r, s));
        }
      }
    }
  }
}

template <int kCount>
using ColumnWords = std::uint32_t[2 * kCount];  // a lane's of 16 pixels of a column
template <class T, int kCount>
__device__ __forceinline__ void mma(float (&sums)[4], const std::uint32_t (&a)[2 * kCount],
                                    const std::uint32_t (&b)[kCount]) {
  if constexpr (std::is_same_v<T, float>) {
    ptx::mma_m16n8k8_tf32(sums, a, b[0], b[1]);
  } else if constexpr (kCount == 2) {
    if constexpr (std::is_same_v<T, tile::Half>) {
      ptx::mma_m16n8k16_f16(sums, a, b[0], b[1]);
    } else {
      ptx::mma_m16n8k16_bf16(sums, a, b[0], b[1]);
    }
  } else if constexpr (std::is_same_v<T, tile::Half>) {
    ptx::mma_m16n8k8_f16(sums, a[0], a[1], b[0]);
  } else {
    ptx::mma_m16n8k8_bf16(sums, a[0], a[1], b[0]);
  }
}
// Columns 0 and 1 from `from` on: a fragment holds both where a column has one chunk.
template <class T, int kCount>
__device__ __forceinline__ void load_columns(std::uint32_t from, std::uint32_t column_step,
                                             ColumnWords<kCount> (&columns)[2]) {
  if constexpr (kCount == 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      ptx::ldmatrix_x4(from + static_cast<std::uint32_t>(i) * column_step, columns[i]);
      if constexpr (std::is_same_v<T, float>) {
#pragma unroll
        for (std::uint32_t& word : columns[i]) word = ptx::cvt_rna_tf32(__uint_as_float(word));
      }
    }
  } else {
    std::uint32_t words[4];
    ptx::ldmatrix_x4(from, words);
#pragma unroll
    for (int i = 0; i < 4; ++i) columns[i / 2][i % 2] = words[i];
  }
}

// The row in shared memory where the window of output row m of the tile begins, and the chunks from there to its row r.
// Neighbouring windows begin in neighbouring rows, whatever the step, so that a fragment's lie in different banks.
__device__ __forceinline__ int staged_row(const Params& p, int m) {
  const int part = m >= p.part_rows ? 1 : 0;
  return part * p.phase_rows + m - part * p.part_rows;
}
template <class I>
__device__ __forceinline__ int row_chunks(const Params& p, int r) {
  return r / I::kStride * p.in_pitch + r % I::kStride * p.phase_chunks;
}

// sums[j]: column j of the warp's 8.
template <class T, class I, class At>
__device__ __forceinline__ void multiply(const Params& p, std::uint32_t from, const FilterWords<T, I>& filter,
                                         float (&sums)[kWarpColumns][4]) {
  const std::uint32_t column_step = 16 * p.chunks_c.divisor;
#pragma unroll
  for (int pair = 0; pair < I::kPairs; ++pair) {
#pragma unroll
    for (int row = 0; row < I::kWindow; ++row) {
      const int r = I::tap(At::kR, row);
      if (r < 0) continue;
      ColumnWords<kWords<T, I>> columns[2];
      load_columns<T, kWords<T, I>>(from + static_cast<std::uint32_t>(2 * pair) * column_step +
                                        16 * static_cast<std::uint32_t>(row_chunks<I>(p, row)),
                                    column_step, columns);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int column = 0; column < I::kWindow; ++column) {
          const int steps = pair * 2 + half - column;
          const int s = I::tap(At::kS, column);
          if (s < 0 || steps < 0 || steps % I::kStride != 0 || steps / I::kStride >= kWarpColumns) continue;
          mma<T, kWords<T, I>>(sums[steps >= 0 ? steps / I::kStride % kWarpColumns : 0], columns[half],
                               filter[r][s >= 0 ? s : 0]);
        }
      }
    }
  }
}

// The epilogue of a pair of channels.
template <class T>
__device__ __forceinline__ tile::Pack<T, 2> finish_pair(const Params& p, float low, float high, const float (&bias)[2],
                                                        const T* addend) {
  float value[2] = {low, high};
  if (!p.is_plain) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      value[i] *= p.alpha;
      if (p.addend_scale != 0.0f && addend != nullptr) value[i] += p.addend_scale * tile::widen<float>(addend[i]);
      value[i] += bias[i];
    }
    gemm::activate_by_call(p.activation, value);
  }
  return tile::narrow_pack<T>(value);
}

// A warp's place: which block of channels and which columns.
struct WarpPlace {
  int block, part, first;  // `first`: channel of the tensor
};

// A lane's pair of channels of a pixel: row m and column `column` of the tile.
struct Pair {
  int m, column, n, h, w;
  bool exists;
};
template <class I, class At>
__device__ __forceinline__ Pair pair_at(const Params& p, const Tile& at, const WarpPlace& place, int half, int j) {
  Pair pair;
  pair.m = static_cast<int>(threadIdx.x) % 32 / 4 + 8 * half;
  pair.column = place.part * kWarpColumns + j;
  const int part = pair.m >= p.part_rows ? 1 : 0;
  pair.n = at.n + part;
  pair.h = at.row + pair.m - part * p.part_rows;
  pair.w = at.column + pair.column;
  if constexpr (I::kIsDgrad) {
    pair.h = 2 * pair.h + At::kR - p.odd_h;
    pair.w = 2 * pair.w + At::kS - p.odd_w;
  }
  // In whole rows: the columns are the caller's.
  pair.exists =
      pair.n < p.images && static_cast<unsigned>(pair.h) < static_cast<unsigned>(p.out_h) && place.first < p.channels;
  return pair;
}
__device__ __forceinline__ int lane_channel() { return static_cast<int>(threadIdx.x) % 4 * 2; }  // of its block
__device__ __forceinline__ std::int64_t offset_of(const Strides& steps, const Pair& pair, const WarpPlace& place) {
  return pair.n * steps.n + static_cast<std::int64_t>(pair.h) * steps.h + static_cast<std::int64_t>(pair.w) * steps.w +
         place.first + lane_channel();
}
template <class T>
__device__ __forceinline__ void load_bias(const Params& p, const WarpPlace& place, float (&bias)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool exists = p.has_bias && place.first < p.channels;
    const std::int64_t at = (place.first + lane_channel() + i) * p.bias_step;
    bias[i] = exists ? gemm::channel_value<T>(p.bias, at, p.float_vectors) : 0.0f;
  }
}

// Where the pair stands in shared memory.
template <class T>
__device__ __forceinline__ tile::Pack<T, 2>* result_at(const Params& p, unsigned char* results, const WarpPlace& place,
                                                       const Pair& pair) {
  const int chunk = pair.m * p.out_pitch + pair.column * static_cast<int>(p.chunks_c.divisor) + place.block * kParts<T>;
  return reinterpret_cast<tile::Pack<T, 2>*>(results + 16 * chunk) + lane_channel() / 2;
}
template <class T, class I, class At>
__device__ __forceinline__ void put_sums(const Params& p, const Tile& at, const WarpPlace& place,
                                         const float (&sums)[kWarpColumns][4], unsigned char* results) {
  constexpr int kStep = I::kIsDgrad ? 2 : 1;  // from one column of the warp to the next
  float bias[2];
  load_bias<T>(p, place, bias);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Pair first = pair_at<I, At>(p, at, place, half, 0);
    const int columns = first.exists && p.addend_scale != 0.0f ? p.out_w - first.w : 0;  // of the addend
    const T* const addend = static_cast<const T*>(p.addend) + offset_of(p.addend_steps, first, place);
    tile::Pack<T, 2>* const to = result_at<T>(p, results, place, first);
    const std::uint32_t step = p.chunks_c.divisor * 16 / static_cast<std::uint32_t>(sizeof(tile::Pack<T, 2>));
#pragma unroll
    for (int j = 0; j < kWarpColumns; ++j) {
      const bool has_addend = j * kStep < columns && first.w + j * kStep >= 0;
      to[static_cast<std::uint32_t>(j) * step] =
          finish_pair<T>(p, sums[j][2 * half], sums[j][2 * half + 1], bias,
                         has_addend ? addend + j * kStep * p.addend_steps.w : nullptr);
    }
  }
}

// The tile's results to the output, as whole vectors of the block of channels and its neighbours.
template <class T, class I, class At>
__device__ __forceinline__ void store_results(const Params& p, const Tile& at, int first_channel,
                                              const unsigned char* results) {
  constexpr int kStep = I::kIsDgrad ? 2 : 1;
  Tile first = at;
  if constexpr (I::kIsDgrad) {
    first.row = 2 * at.row + At::kR - p.odd_h;
    first.column = 2 * at.column + At::kS - p.odd_w;
  }
  for_pixels<T, kStep, kStep>(p, p.out_walk, p.out_pitch, first, p.out_steps, p.part_rows, 0, p.out_h, p.out_w,
                              first_channel, [&](bool exists, std::int64_t offset, int chunk) {
                                if (!exists) return;
                                *reinterpret_cast<uint4*>(static_cast<T*>(p.out) + offset) =
                                    *reinterpret_cast<const uint4*>(results + 16 * chunk);
                              });
}

// --- tiles with elements that are not finite -------------------------------------------------------------------------

// One sum, of channel n of the warp's block, without other groups' channels.
template <class T, class I, class At>
__device__ __forceinline__ float exact_sum(const Params& p, const unsigned char* staged, const WarpPlace& place,
                                           const Pair& pair, int n) {
  float sum = 0;
  const int first = n / p.group * p.group;
#pragma unroll 1
  for (int k = first; k < first + p.group; ++k) {
    const FilterElement<T> filter(p, place.first, k, n, I::kTaps);
#pragma unroll 1
    for (int pixel = 0; pixel < I::kWindow * I::kWindow; ++pixel) {
      const int row = pixel / I::kWindow;
      const int column = pixel % I::kWindow;
      const int r = I::tap(At::kR, row);
      const int s = I::tap(At::kS, column);
      if (r < 0 || s < 0) continue;
      const int at = staged_row(p, pair.m) * p.in_pitch + row_chunks<I>(p, row) +
                     (pair.column * I::kStride + column) * static_cast<int>(p.chunks_c.divisor) +
                     place.block * kParts<T>;
      sum += tile::widen<float>(reinterpret_cast<const T*>(staged + 16 * at)[k]) * tile::widen<float>(filter.tap(r, s));
    }
  }
  return sum;
}

// The warp's part of the tile.
template <class T, class I, class At>
__device__ __noinline__ void put_exact(const Params& p, const Tile& at, const WarpPlace& place,
                                       const unsigned char* staged, unsigned char* results) {
  float bias[2];
  load_bias<T>(p, place, bias);
#pragma unroll 1
  for (int i = 0; i < 2 * kWarpColumns; ++i) {
    const Pair pair = pair_at<I, At>(p, at, place, i / kWarpColumns, i % kWarpColumns);
    if (!pair.exists || static_cast<unsigned>(pair.w) >= static_cast<unsigned>(p.out_w)) continue;
    const T* const addend =
        p.addend_scale != 0.0f ? static_cast<const T*>(p.addend) + offset_of(p.addend_steps, pair, place) : nullptr;
    *result_at<T>(p, results, place, pair) =
        finish_pair<T>(p, exact_sum<T, I, At>(p, staged, place, pair, lane_channel()),
                       exact_sum<T, I, At>(p, staged, place, pair, lane_channel() + 1), bias, addend);
  }
}

// A tile of the output, of the pixels at one place of their blocks. All threads; the results of before were stored.
// Calls multiplied() when nobody reads `staged` any more, before the results leave.
template <class T, class I, class At, class Multiplied>
__device__ __forceinline__ void make_place(const Params& p, const Tile& at, const WarpPlace& place, int first_channel,
                                           const unsigned char* staged, int fragment, const FilterWords<T, I>& filter,
                                           unsigned char* results, Multiplied&& multiplied) {
  float sums[kWarpColumns][4] = {};
  multiply<T, I, At>(p, ptx::shared_address(staged) + 16 * static_cast<std::uint32_t>(fragment), filter, sums);
  float zero = 0;  // a NaN if any sum is not finite
#pragma unroll
  for (int j = 0; j < kWarpColumns; ++j) {
#pragma unroll
    for (int q = 0; q < 4; ++q) zero += 0.0f * sums[j][q];
  }
  const bool spoiled = I::kDepth == kBlock && p.group < kBlock && __any_sync(0xffffffffu, zero != zero);
  if (spoiled) {
    put_exact<T, I, At>(p, at, place, staged, results);
  } else {
    put_sums<T, I, At>(p, at, place, sums, results);
  }
  __syncthreads();
  multiplied();
  store_results<T, I, At>(p, at, first_channel, results);
}

template <class T, int kRow>
__global__ void __launch_bounds__(32 * kMaxWarps, kTiles[kRow].min_blocks_of(sizeof(T)))
    small_group_kernel(const __grid_constant__ Params p) {
  using I = Instance<kRow>;
  unsigned char* const shared = tile::dynamic_shared();
  std::uint32_t channel_tile = 0;
  std::uint32_t index = p.channel_tiles.divmod(blockIdx.x, &channel_tile);
  const int first_channel = static_cast<int>(channel_tile * p.blocks_c.divisor) * kBlock;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  WarpPlace place;
  std::uint32_t block = 0;
  place.part = static_cast<int>(p.blocks_c.divmod(threadIdx.x / 32, &block));
  place.block = static_cast<int>(block);
  place.first = first_channel + place.block * kBlock;

  unsigned char* const results = shared + p.stages * p.stage_bytes;
  int stage = 0;
  // With step 2, where tiles have one stage, half of the blocks wait for the filter first: those that share a
  // multiprocessor would go on loading together, and multiplying together, while nobody loads.
  const bool is_late = I::kStride == 2 && blockIdx.x >= gridDim.x / 2;
  FilterWords<T, I> filter;
  if (is_late) load_filter<T, I>(p, place.first, filter);
  stage_image<T, I>(p, tile_at(p, index), first_channel, ptx::shared_address(shared));
  if (!is_late) load_filter<T, I>(p, place.first, filter);
  // Where the lane's row of a fragment begins: rows 0 to 15 of a column, then those of the next, or the next chunk.
  const auto chunks = static_cast<int>(p.chunks_c.divisor);
  const int fragment = staged_row(p, lane % 16) * p.in_pitch + place.part * kWarpColumns * I::kStride * chunks +
                       lane / 16 * (kWords<T, I> == 1 ? chunks : 1) + place.block * kBlock / I::kDepth * kWords<T, I>;
  while (true) {
    const Tile at = tile_at(p, index);
    const std::uint32_t next = index + p.walkers;
    ptx::cp_async_wait_group<0>();
    __syncthreads();
    if (I::kStride == 1 && p.stages == 2 && next < p.tiles) {
      stage_image<T, I>(p, tile_at(p, next), first_channel, ptx::shared_address(shared + (stage ^ 1) * p.stage_bytes));
    }
    unsigned char* const staged = shared + stage * p.stage_bytes;
    const auto go_on = [] {};
    const auto stage_next = [&] {
      if (p.stages == 1 && next < p.tiles) {
        stage_image<T, I>(p, tile_at(p, next), first_channel, ptx::shared_address(shared));
      }
    };
    const auto make = [&](auto block_place, auto&& multiplied) {
      make_place<T, I, decltype(block_place)>(p, at, place, first_channel, staged, fragment, filter, results,
                                              multiplied);
    };
    if constexpr (I::kIsDgrad) {
      make(BlockPlace<0, 0>{}, go_on);
      __syncthreads();
      make(BlockPlace<0, 1>{}, go_on);
      __syncthreads();
      make(BlockPlace<1, 0>{}, go_on);
      __syncthreads();
      make(BlockPlace<1, 1>{}, stage_next);
    } else {
      make(BlockPlace<0, 0>{}, stage_next);
    }
    if (next >= p.tiles) return;
    if (p.stages == 2) stage ^= 1;
    index = next;
  }
}

}  // namespace gpudnn::kernels::small_group
