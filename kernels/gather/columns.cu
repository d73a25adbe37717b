// Instances and launch of the column-buffer kernel.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/gather/columns.cuh"
#include "kernels/tile/dispatch.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {
namespace {

// Positions and offsets within an image, of whatever a thread may compute, fit 32 bits.
bool fits(const ColumnParams& params) {
  std::int64_t row = params.images;
  for (const ColumnDimension& dim : params.dims) {
    row *= dim.outputs;
    const std::int64_t reach =
        dim.outputs * dim.stride + dim.taps * std::max(dim.tap_step, -dim.tap_step) + std::max(dim.base, -dim.base);
    const std::int64_t farthest = std::max(dim.extent, reach);
    if (dim.step < 0 || farthest > INT32_MAX / 2 || dim.step > INT32_MAX / 2 / std::max<std::int64_t>(farthest, 1))
      return false;
  }
  return row <= tile::kMostIterations && params.channels <= tile::kMostIterations;
}

template <class Word, int V>
bool launch_typed(const ColumnParams& params, cudaStream_t stream) {
  constexpr std::int64_t kBlocksForAll = 16;  // of a multiprocessor: with fewer the taps are shared out
  ColumnArgs<Word> args{};
  args.x = static_cast<const Word*>(params.x);
  args.columns = static_cast<Word*>(params.columns);
  args.image_step = params.image_step;
  args.channel_step = params.channel_step;
  args.row = params.images;
  for (int d = 0; d < kColumnSpatial; ++d) {
    const ColumnDimension& dim = params.dims[d];
    args.row *= dim.outputs;
    args.axis[d] = {static_cast<std::uint32_t>(dim.extent), static_cast<std::int32_t>(dim.stride),
                    static_cast<std::int32_t>(dim.tap_step), static_cast<std::int32_t>(dim.base),
                    static_cast<std::int32_t>(dim.step)};
  }
  const ColumnDimension& across = params.dims[2];
  args.words = static_cast<std::uint32_t>(args.row / V);
  args.tap_rows = static_cast<std::uint32_t>(params.dims[0].taps * params.dims[1].taps);
  args.taps = static_cast<std::uint32_t>(across.taps);
  args.line_words = tile::FastDivmod(static_cast<std::uint32_t>(across.outputs / V));
  args.lines = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[1].outputs));
  args.planes = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[0].outputs));
  args.tap_lines = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[1].taps));
  constexpr std::int64_t kWordsOfBlock = kColumnThreads * kColumnsOfThread;
  const std::int64_t word_blocks = (args.words + kWordsOfBlock - 1) / kWordsOfBlock;
  const std::int64_t wanted = kBlocksForAll * params.multiprocessors / (word_blocks * params.channels) + 1;
  const std::int64_t shares = std::min<std::int64_t>(wanted, args.tap_rows);
  args.rows_of_block = static_cast<std::uint32_t>((args.tap_rows + shares - 1) / shares);
  args.shares = tile::FastDivmod((args.tap_rows + args.rows_of_block - 1) / args.rows_of_block);
  args.word_blocks = tile::FastDivmod(static_cast<std::uint32_t>(word_blocks));
  const std::int64_t blocks = word_blocks * args.shares.divisor * params.channels;
  if (blocks > tile::kMostIterations) return false;
  columns<Word, V><<<static_cast<unsigned>(blocks), kColumnThreads, 0, stream>>>(args);
  return true;
}

}  // namespace

bool launch_columns(const ColumnParams& params, CUstream_st* stream) {
  if (!fits(params)) return false;
  const bool words = tile::is_aligned(params.columns, 4);
  const std::int64_t outputs = params.dims[2].outputs;
  switch (params.element_bytes) {
    case 1:
      return words && outputs % 4 == 0 ? launch_typed<std::uint8_t, 4>(params, stream)
                                       : launch_typed<std::uint8_t, 1>(params, stream);
    case 2:
      return words && outputs % 2 == 0 ? launch_typed<std::uint16_t, 2>(params, stream)
                                       : launch_typed<std::uint16_t, 1>(params, stream);
    case 4:
      return launch_typed<std::uint32_t, 1>(params, stream);
    default:
      return launch_typed<std::uint64_t, 1>(params, stream);
  }
}

}  // namespace gpudnn::kernels
