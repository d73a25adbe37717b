// The column buffer of a convolution's input: row (c, taps) and column (n, outputs) hold what that tap reads for that
// output, 0 in the padding.
//
// A thread owns kColumnsOfThread words of a row, a block's width apart, each of V neighbouring outputs of a line (4
// bytes where V > 1, so that 16-bit elements need no store of their own each). It takes their coordinates apart once
// and then goes through the taps of one channel, or through a share of them where the channels alone do not fill the
// device: each word then costs V loads, their comparisons with the image's edge, and a store. Neighbouring threads
// write neighbouring words; what they read comes from memory once and then from the caches, as neighbouring taps read
// almost the same elements. Bytes: the buffer once, and the image.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/gather/columns.hpp"
#include "kernels/gather/move.cuh"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

constexpr int kColumnThreads = 256;
constexpr int kColumnsOfThread = 4;

struct ColumnAxis {
  std::uint32_t extent;
  std::int32_t stride;
  std::int32_t tap_step;
  std::int32_t base;
  std::int32_t step;
};

template <class Word>
struct ColumnArgs {
  const Word* x;
  Word* columns;
  std::int64_t image_step;
  std::int64_t channel_step;
  std::int64_t row;             // elements of one
  std::uint32_t words;          // of a row
  std::uint32_t tap_rows;       // taps without those along the last dimension
  std::uint32_t rows_of_block;  // tap rows of a block
  std::uint32_t taps;           // along the last dimension
  tile::FastDivmod line_words;  // outputs along the last dimension, in words
  tile::FastDivmod lines;       // outputs along the one before
  tile::FastDivmod planes;
  tile::FastDivmod word_blocks;
  tile::FastDivmod shares;     // blocks for each channel and range of words
  tile::FastDivmod tap_lines;  // taps along the dimension before the last
  ColumnAxis axis[kColumnSpatial];
};

template <class Word, int V>
__global__ void __launch_bounds__(kColumnThreads) columns(const __grid_constant__ ColumnArgs<Word> args) {
  std::uint32_t word_block;
  std::uint32_t share;
  const std::uint32_t channel = args.shares.divmod(args.word_blocks.divmod(blockIdx.x, &word_block), &share);
  const std::uint32_t first = word_block * (kColumnThreads * kColumnsOfThread) + threadIdx.x;
  const Word* const x = args.x + channel * args.channel_step;
  std::int64_t image[kColumnsOfThread];
  std::int32_t at[kColumnsOfThread][kColumnSpatial];  // what the first tap reads for the word's first output
#pragma unroll
  for (int k = 0; k < kColumnsOfThread; ++k) {
    std::uint32_t q[kColumnSpatial];
    std::uint32_t rest = args.line_words.divmod(first + k * kColumnThreads, &q[2]);
    rest = args.lines.divmod(rest, &q[1]);
    image[k] = args.planes.divmod(rest, &q[0]) * args.image_step;
    q[2] *= V;
#pragma unroll
    for (int d = 0; d < kColumnSpatial; ++d) {
      at[k][d] = static_cast<std::int32_t>(q[d]) * args.axis[d].stride + args.axis[d].base;
    }
  }
  const std::uint32_t begin = share * args.rows_of_block;
  const std::uint32_t end = begin + args.rows_of_block < args.tap_rows ? begin + args.rows_of_block : args.tap_rows;
  const ColumnAxis& across = args.axis[2];
  Word* out = args.columns + (std::int64_t{channel} * args.tap_rows + begin) * args.taps * args.row + first * V;
#pragma unroll 1
  for (std::uint32_t tap_row = begin; tap_row < end; ++tap_row) {
    std::uint32_t tap[2];
    tap[0] = args.tap_lines.divmod(tap_row, &tap[1]);
    std::int64_t line[kColumnsOfThread];
    unsigned holds = 0;  // bit k: the lines that the tap row reads for word k lie in the image
#pragma unroll
    for (int k = 0; k < kColumnsOfThread; ++k) {
      line[k] = image[k];
      bool inside = first + k * kColumnThreads < args.words;
#pragma unroll
      for (int d = 0; d < 2; ++d) {
        const std::int32_t p = at[k][d] + static_cast<std::int32_t>(tap[d]) * args.axis[d].tap_step;
        inside = inside && static_cast<std::uint32_t>(p) < args.axis[d].extent;
        line[k] += std::int64_t{p} * args.axis[d].step;
      }
      if (inside) holds |= 1u << k;
    }
    std::int32_t moved = 0;
#pragma unroll 2
    for (std::uint32_t s = 0; s < args.taps; ++s) {
      tile::Pack<Word, V> words[kColumnsOfThread];
#pragma unroll
      for (int k = 0; k < kColumnsOfThread; ++k) {
        Word values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const std::int32_t p = at[k][2] + moved + v * across.stride;
          values[v] = 0;
          if ((holds >> k & 1u) != 0 && static_cast<std::uint32_t>(p) < across.extent) {
            values[v] = x[line[k] + p * across.step];
          }
        }
        words[k] = joined<Word, V>(values);
      }
#pragma unroll
      for (int k = 0; k < kColumnsOfThread; ++k) {
        if (first + k * kColumnThreads < args.words) {
          tile::store_pack<Word, V>(out + k * (kColumnThreads * V), words[k]);
        }
      }
      out += args.row;
      moved += across.tap_step;
    }
  }
}

}  // namespace gpudnn::kernels
