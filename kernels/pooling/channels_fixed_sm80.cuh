// Pooling in two dimensions with the usual windows, channels innermost in packs of 16 bytes.
//
// Mathematics: strips.cuh; a lane is a channel of a pack. Least traffic: forward x and y; backward of a maximum x, dy
// and dx; backward of an average dy and dx.
//
// Data flow. Neighbouring threads take neighbouring packs, then neighbouring columns.
//   forward    a thread walks down a strip of kStrip outputs. It loads each pack of x under the strip once, kWindow
//              columns wide; columns that neighbours share come from the L1, rows that strips share from the L2. No
//              load depends on a branch, so many are in flight.
//   backward   a block takes tiles of windows, each `group` threads wide: `packs` packs times `columns` windows. A
//   thread
//              walks down its column of windows and leaves the choices in shared memory, N bytes a window. Then it
//              takes the column of blocks of x below, and gathers from its own choices and those of the threads to the
//              left of it; the tile's first columns and rows of windows serve only that (kOverlap - 1 of each), so x is
//              read from the L2 a little more than once, and from memory once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/strips.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

constexpr int kChannelsThreads = 256;
constexpr int kTileRows = 8;  // rows of windows that a thread chooses for

template <class T>
struct ChannelsFixedArgs {
  const T* x;
  const T* dy;
  T* out;
  tile::Compute<T> alpha;
  tile::Compute<T> beta;
  bool plain;
  bool count_padding;
  std::int32_t pad[2];
  std::int32_t height, width;
  std::int32_t windows_high, windows_wide;
  std::int32_t blocks_high, blocks_wide;
  std::int32_t channel_packs;
  // Strides in elements: image, row, column.
  std::int64_t x_strides[3], dy_strides[3], out_strides[3];
  std::uint32_t count;  // forward: strips; backward: tiles
  // Forward: how a strip's number falls apart, fastest first. Backward: a tile's.
  tile::FastDivmod by_packs;
  tile::FastDivmod by_columns;
  tile::FastDivmod by_rows;
  // Backward.
  std::int32_t packs;      // of a tile, a power of two
  std::int32_t group;      // threads of a tile, a power of two: packs times columns of windows
  std::int32_t tile_rows;  // rows of blocks in a tile
  std::int32_t tile_columns;
};

// Four blocks on a multiprocessor for averages of 16-bit types, which a few registers more would make three.
template <class T, bool kMax>
inline constexpr int kChannelsBlocks = sizeof(T) == 2 && !kMax ? 4 : 0;

template <class T, int kWindow, int kStride, bool kMax, bool kNan>
__global__ void __launch_bounds__(kChannelsThreads, kChannelsBlocks<T, kMax>)
    pooling_channels_fixed_forward(ChannelsFixedArgs<T> args) {
  using C = tile::Compute<T>;
  constexpr int N = tile::kPackWidth<T>;
  const std::uint32_t index = blockIdx.x * kChannelsThreads + threadIdx.x;
  if (index >= args.count) return;
  std::uint32_t pack, column, strip;
  const std::uint32_t above_packs = args.by_packs.divmod(index, &pack);
  const std::uint32_t above_columns = args.by_columns.divmod(above_packs, &column);
  const std::uint32_t image = args.by_rows.divmod(above_columns, &strip);
  const std::int32_t first = static_cast<std::int32_t>(strip) * kStrip;
  const std::int64_t channel = static_cast<std::int64_t>(pack) * N;
  const Columns<kWindow> columns(static_cast<std::int32_t>(column) * kStride - args.pad[1], args.width);
  const T* taps[kWindow];
#pragma unroll
  for (int k = 0; k < kWindow; ++k) {
    taps[k] = args.x + image * args.x_strides[0] + columns.at[k] * args.x_strides[2] + channel;
  }
  const auto load = [&](std::int32_t row, int k) { return tile::load_pack<T, N>(taps[k] + row * args.x_strides[1]); };
  T* const out =
      args.out + image * args.out_strides[0] + static_cast<std::int64_t>(column) * args.out_strides[2] + channel;
  const auto result = [&](int r, const auto& values) {
    if (first + r >= args.windows_high) return;
    T* const target = out + (first + r) * args.out_strides[1];
    C wide[N];
    if constexpr (kMax) {
      tile::Pack<T, N> most = values;
      if constexpr (!kNan) {
        C numbers[N];
        tile::widen_pack<C>(values, numbers);
        bool any = false;
#pragma unroll
        for (int n = 0; n < N; ++n) any = any || numbers[n] != numbers[n];
        if (any) {  // windows of nothing but NaN
          T finished[N];
#pragma unroll
          for (int n = 0; n < N; ++n) finished[n] = finish_max<kNan>(values.get(n), false);
          C again[N];
#pragma unroll
          for (int n = 0; n < N; ++n) again[n] = tile::widen<C>(finished[n]);
          most = tile::narrow_pack<T>(again);
        }
      }
      if (args.plain) {
        tile::store_pack<T, N>(target, most);
        return;
      }
      tile::widen_pack<C>(most, wide);
    } else {
      const std::int32_t rows_inside = inside_count<kWindow>((first + r) * kStride - args.pad[0], args.height);
      const C scale = args.count_padding ? C(1) / C(kWindow * kWindow) : inverse_of_area<C>(rows_inside, columns.count);
#pragma unroll
      for (int n = 0; n < N; ++n) wide[n] = values[n] * scale;
    }
    store_scaled<T, N>(wide, args.alpha, args.beta, target);
  };
  walk_forward<T, N, kWindow, kStride, kMax, kNan>(first * kStride - args.pad[0], 0, args.height - 1, columns.inside,
                                                   load, result);
}

template <class T, int kWindow, int kStride, bool kMax, bool kNan>
__global__ void __launch_bounds__(kChannelsThreads) pooling_channels_fixed_backward(ChannelsFixedArgs<T> args) {
  using C = tile::Compute<T>;
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kBack = kOverlap<kWindow, kStride>;
  using Bytes = tile::Pack<std::uint8_t, N>;
  __shared__ Bytes choices[kMax ? kTileRows : 1][kChannelsThreads];
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t in_group = thread & (args.group - 1);
  const std::uint32_t number = blockIdx.x * static_cast<std::uint32_t>(kChannelsThreads / args.group) +
                               static_cast<std::uint32_t>(thread / args.group);
  const bool tile_there = number < args.count;
  std::uint32_t pack_group, tile_column, tile_row;
  const std::uint32_t above_packs = args.by_packs.divmod(tile_there ? number : 0, &pack_group);
  const std::uint32_t above_columns = args.by_columns.divmod(above_packs, &tile_column);
  const std::uint32_t image = args.by_rows.divmod(above_columns, &tile_row);
  const std::int32_t pack = static_cast<std::int32_t>(pack_group) * args.packs + (in_group & (args.packs - 1));
  const std::int32_t from_left = in_group / args.packs;  // the thread's column in the tile of windows
  const bool there = tile_there && pack < args.channel_packs;
  const std::int64_t channel = there ? static_cast<std::int64_t>(pack) * N : 0;
  // The thread's column of windows, which is the number of its column of blocks too; the tile's first row of blocks.
  const std::int32_t column = static_cast<std::int32_t>(tile_column) * args.tile_columns - (kBack - 1) + from_left;
  const std::int32_t first_block = static_cast<std::int32_t>(tile_row) * args.tile_rows;
  const std::int32_t first_window = first_block - (kBack - 1);
  const std::int32_t block_rows = min(args.tile_rows, args.blocks_high - first_block);

  if constexpr (kMax) {
    if (there && column >= 0 && column < args.windows_wide) {
      const T* const x = args.x + image * args.x_strides[0] + channel;
      const Columns<kWindow> columns(column * kStride - args.pad[1], args.width);
      const auto load = [&](std::int32_t row, int k) {
        return tile::load_pack<T, N>(x + row * args.x_strides[1] + columns.at[k] * args.x_strides[2]);
      };
      // Windows above or below the grid are chosen for as well, within the image, and never asked.
      walk_choices<T, N, kWindow, kStride, kNan>(
          first_window * kStride - args.pad[0], block_rows + kBack - 1, 0, args.height - 1, columns, load,
          [&](std::int32_t r, const Bytes& bytes) { store_choices(bytes, &choices[r][thread]); });
    }
    __syncthreads();
  }
  if (!there || from_left < kBack - 1 || column >= args.blocks_wide) return;

  const T* const dy = args.dy + image * args.dy_strides[0] + channel;
  T* const out = args.out + image * args.out_strides[0] + channel;
  constexpr C volume = C(1) / C(kWindow * kWindow);
  std::int32_t columns_inside[kBack];
#pragma unroll
  for (int q = 0; q < kBack; ++q) {
    columns_inside[q] = inside_count<kWindow>((column - q) * kStride - args.pad[1], args.width);
  }
  WindowGradient<T, N, kMax> held[kBack][kBack];
  // Row r of the tile's windows.
  const auto load_row = [&](std::int32_t r, WindowGradient<T, N, kMax>(&to)[kBack]) {
    const std::int32_t row = first_window + r;
    const bool row_there = row >= 0 && row < args.windows_high;
    const std::int32_t rows_inside = inside_count<kWindow>(row * kStride - args.pad[0], args.height);
#pragma unroll
    for (int q = 0; q < kBack; ++q) {
      if (row_there && column - q >= 0 && column - q < args.windows_wide) {
        to[q].dy = tile::load_pack<T, N>(dy + row * args.dy_strides[1] + (column - q) * args.dy_strides[2]);
        if constexpr (kMax) {
          to[q].take_choices(load_choices(&choices[r][thread - q * args.packs]));
        } else {
          to[q].scale = args.count_padding ? volume : inverse_of_area<C>(rows_inside, columns_inside[q]);
        }
      } else {
        to[q].nothing();
      }
    }
  };
#pragma unroll
  for (int p = 1; p < kBack; ++p) load_row(kBack - 1 - p, held[p - 1]);
#pragma unroll 1
  for (std::int32_t i = 0; i < block_rows; ++i) {
#pragma unroll
    for (int p = kBack - 1; p > 0; --p) {
#pragma unroll
      for (int q = 0; q < kBack; ++q) held[p][q] = held[p - 1][q];
    }
    load_row(i + kBack - 1, held[0]);
#pragma unroll
    for (int a = 0; a < kStride; ++a) {
      const std::int32_t h = (first_block + i) * kStride - args.pad[0] + a;
      if (h < 0 || h >= args.height) continue;
#pragma unroll
      for (int b = 0; b < kStride; ++b) {
        const std::int32_t w = column * kStride - args.pad[1] + b;
        if (w < 0 || w >= args.width) continue;
        C sum[N];
        gather<T, N, kWindow, kStride, kMax>(held, a, b, sum);
        store_scaled<T, N>(sum, args.alpha, args.beta, out + h * args.out_strides[1] + w * args.out_strides[2]);
      }
    }
  }
}

}  // namespace gpudnn::kernels
