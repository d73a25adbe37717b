// Averages over windows 3x3 with step 1, channels innermost in packs of 16 bytes, and their gradient.
//
// Mathematics. The sum over a window is the sum over three rows of sums over three columns, in float; then it is
// divided. The gradient is a sum over windows too: over the gradients dy, each divided by what its window was divided
// by, with the padding 2 - p. What a window is divided by is a product of its rows and its columns inside the image.
//
// Data flow. A thread owns a pack of channels of a column and walks down a strip of rows. It loads the three packs of a
// row that it needs, one row ahead, and keeps the sums of the last two rows: so it reads each pack three times, from
// the L1 but for one, where the kernel for any window reads it four and a half times. Threads of a block are `inner`
// packs times as many columns; the rows at the seam of strips come from the L2. Least bytes: both tensors once.
//
// Instructions for 8 outputs of 16-bit types: 24 conversions, 24 for the sum across, 16 down, 8 to scale, 4 to convert
// back, about 40 beside: 15 an output, where the copy rate leaves 28. Two columns to a thread take 13, in half as many
// threads of one and a half times the registers; they are as fast in 16 bits and slower in f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/strips.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

constexpr int kChannelsRunsThreads = 128;
constexpr int kChannelsRunsBlocks = 8;  // on a multiprocessor

template <class T>
struct ChannelsRunsArgs {
  const T* in;
  T* out;
  float alpha;
  float beta;
  bool gradient;
  bool count_padding;
  std::int32_t pad[2];      // of the sum
  std::int32_t high, wide;  // of `in`
  std::int32_t out_high, out_wide;
  std::int64_t in_strides[3];  // in elements: image, row, column
  std::int64_t out_strides[3];
  std::uint32_t count;  // of threads
  std::int32_t strip;   // rows of a thread
  std::int32_t inner;   // packs side by side in a block
  // How a thread's number falls apart, fastest first.
  tile::FastDivmod by_inner, by_columns, by_groups, by_strips;
};

template <class T>
__global__ void __launch_bounds__(kChannelsRunsThreads, kChannelsRunsBlocks)
    pooling_channels_runs(const __grid_constant__ ChannelsRunsArgs<T> args) {
  constexpr int kWindow = 3;
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  const std::uint32_t index = blockIdx.x * kChannelsRunsThreads + threadIdx.x;
  if (index >= args.count) return;
  std::uint32_t inner, place, group, strip;
  const std::uint32_t above_inner = args.by_inner.divmod(index, &inner);
  const std::uint32_t above_columns = args.by_columns.divmod(above_inner, &place);
  const std::uint32_t above_groups = args.by_groups.divmod(above_columns, &group);
  const std::uint32_t image = args.by_strips.divmod(above_groups, &strip);
  const std::int64_t channel = (static_cast<std::int64_t>(group) * args.inner + inner) * N;
  const std::int32_t column = static_cast<std::int32_t>(place), start = column - args.pad[1];
  const std::int32_t first = static_cast<std::int32_t>(strip) * args.strip;
  const std::int32_t rows = min(args.strip, args.out_high - first);
  const bool weighs = args.gradient && !args.count_padding;

  bool inside[kWindow];
  float weight[kWindow];
#pragma unroll
  for (int k = 0; k < kWindow; ++k) {
    inside[k] = start + k >= 0 && start + k < args.wide;
    // To the gradient a column is a window of the average: it begins 2 - p columns before.
    weight[k] = weighs ? share_of(inside_count<kWindow>(start + k - (kWindow - 1 - args.pad[1]), args.out_wide)) : 1.0f;
  }
  const bool divides = !args.gradient && !args.count_padding;
  const float scale = args.alpha * ((divides ? share_of(inside_count<kWindow>(start, args.wide)) : 1.0f) * (1.0f / 9));

  std::int32_t row = first - args.pad[0];  // the next to be loaded
  const std::int32_t end = min(row + rows + kWindow - 1, args.high);
  const T* from =
      args.in + image * args.in_strides[0] + row * args.in_strides[1] + start * args.in_strides[2] + channel;
  struct Line {
    Pack at[kWindow];
  };
  const auto load = [&] {
    Line line;
    const bool there = row >= 0 && row < end;
#pragma unroll
    for (int k = 0; k < kWindow; ++k) {
      if (there && inside[k]) {
        line.at[k] = tile::load_pack<T, N>(from + k * args.in_strides[2]);
      } else {
        line.at[k].fill(tile::narrow<T>(0.0f));
      }
    }
    from += args.in_strides[1];
    ++row;
    return line;
  };
  struct Sums {
    float of[N];
  };
  const auto across = [&](const Line& line, std::int32_t at) {
    Sums sums;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      float v[kWindow];
#pragma unroll
      for (int k = 0; k < kWindow; ++k) v[k] = tile::widen<float>(line.at[k].get(n));
      sums.of[n] = v[0] * weight[0] + v[1] * weight[1] + v[2] * weight[2];
    }
    if (weighs) {
      const float more = share_of(inside_count<kWindow>(at - (kWindow - 1 - args.pad[0]), args.out_high));
      if (more != 1.0f) {
#pragma unroll
        for (float& sum : sums.of) sum *= more;
      }
    }
    return sums;
  };

  T* target =
      args.out + image * args.out_strides[0] + first * args.out_strides[1] + column * args.out_strides[2] + channel;
  Line next = load();
  Sums both, last;  // of the last two rows, and of the last
  {
    const Line after = load();
    both = across(next, row - 2);
    next = load();
    last = across(after, row - 2);
#pragma unroll
    for (int n = 0; n < N; ++n) both.of[n] += last.of[n];
  }
#pragma unroll 1
  for (std::int32_t r = 0; r < rows; ++r) {
    const Sums sums = across(next, row - 1);
    next = load();
    const float by = divides ? scale * share_of(inside_count<kWindow>(first + r - args.pad[0], args.high)) : scale;
    float values[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      values[n] = (both.of[n] + sums.of[n]) * by;
      both.of[n] = last.of[n] + sums.of[n];
      last.of[n] = sums.of[n];
    }
    if (args.beta != 0.0f) {
      float old[N];
      tile::widen_pack<float>(tile::load_pack<T, N>(target), old);
#pragma unroll
      for (int n = 0; n < N; ++n) values[n] += args.beta * old[n];
    }
    tile::store_pack<T, N>(target, tile::narrow_pack<T>(values));
    target += args.out_strides[1];
  }
}

}  // namespace gpudnn::kernels
