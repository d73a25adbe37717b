// Instances and launch of the column-buffer kernel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gather/column_runs.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {
namespace {

// Positions and offsets within an image, of whatever a thread may compute, fit 32 bits.
bool fits(const ColumnParams& params) {
  std::int64_t row = params.images;
  for (const ColumnDimension& dim : params.dims) {
    row *= dim.outputs;
    const std::int64_t reach = dim.outputs * dim.stride + dim.taps * tile::greatest(dim.tap_step, -dim.tap_step) +
                               tile::greatest(dim.base, -dim.base);
    const std::int64_t farthest = tile::greatest(dim.extent, reach);
    if (dim.step < 0 || farthest > INT32_MAX / 2 ||
        dim.step > INT32_MAX / 2 / tile::greatest<std::int64_t>(farthest, 1))
      return false;
  }
  return row <= tile::kMaxIterations && params.channels <= tile::kMaxIterations;
}

// With words of V elements; a block takes `words_of_block` of them. False where there are too many blocks.
template <class Word>
bool make_args(const ColumnParams& params, int V, std::int64_t words_of_block, ColumnArgs<Word>* args,
               std::int64_t* blocks) {
  constexpr std::int64_t kBlocksForAll = 16;  // of a multiprocessor: with fewer the taps are shared out
  args->x = static_cast<const Word*>(params.x);
  args->columns = static_cast<Word*>(params.columns);
  args->image_step = params.image_step;
  args->channel_step = params.channel_step;
  args->row = params.images;
  for (int d = 0; d < kColumnSpatial; ++d) {
    const ColumnDimension& dim = params.dims[d];
    args->row *= dim.outputs;
    args->axis[d] = {static_cast<std::uint32_t>(dim.extent), static_cast<std::int32_t>(dim.stride),
                     static_cast<std::int32_t>(dim.tap_step), static_cast<std::int32_t>(dim.base),
                     static_cast<std::int32_t>(dim.step)};
  }
  const ColumnDimension& across = params.dims[2];
  args->words = static_cast<std::uint32_t>(args->row / V);
  args->tap_rows = static_cast<std::uint32_t>(params.dims[0].taps * params.dims[1].taps);
  args->taps = static_cast<std::uint32_t>(across.taps);
  args->line_words = tile::FastDivmod(static_cast<std::uint32_t>(across.outputs / V));
  args->lines = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[1].outputs));
  args->planes = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[0].outputs));
  args->tap_lines = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[1].taps));
  const std::int64_t word_blocks = (args->words + words_of_block - 1) / words_of_block;
  const std::int64_t wanted = kBlocksForAll * params.multiprocessors / (word_blocks * params.channels) + 1;
  const std::int64_t shares = tile::least<std::int64_t>(wanted, args->tap_rows);
  args->rows_of_block = static_cast<std::uint32_t>((args->tap_rows + shares - 1) / shares);
  args->shares = tile::FastDivmod((args->tap_rows + args->rows_of_block - 1) / args->rows_of_block);
  args->word_blocks = tile::FastDivmod(static_cast<std::uint32_t>(word_blocks));
  *blocks = word_blocks * args->shares.divisor * params.channels;
  return *blocks <= tile::kMaxIterations;
}

template <class Word, int V>
bool launch_typed(const ColumnParams& params, cudaStream_t stream) {
  ColumnArgs<Word> args{};
  std::int64_t blocks = 0;
  if (!make_args(params, V, kColumnThreads * kColumnsOfThread, &args, &blocks)) return false;
  columns<Word, V><<<static_cast<unsigned>(blocks), kColumnThreads, 0, stream>>>(args);
  return true;
}

// Whether columns go by packs, and the input's rows by pieces.
template <class Word>
bool has_runs(const ColumnParams& params) {
  const ColumnDimension& across = params.dims[2];
  bool pieces = tile::is_aligned(params.x, kRunPiece * sizeof(Word)) && params.image_step % kRunPiece == 0 &&
                params.channel_step % kRunPiece == 0 && across.extent % kRunPiece == 0;
  for (int d = 0; d < 2; ++d) pieces = pieces && params.dims[d].step % kRunPiece == 0;
  return pieces && tile::is_aligned(params.columns, 16) && across.outputs % (16 / sizeof(Word)) == 0 &&
         across.step == 1 && across.taps <= kMaxRunTaps && across.stride <= 2 &&
         (across.taps == 1 || across.tap_step == 1 || across.tap_step == -1);
}

template <class Word, int kStride>
bool launch_runs(const ColumnParams& params, cudaStream_t stream) {
  ColumnParams aligned = params;
  ColumnDimension& across = aligned.dims[2];
  if (across.taps == 1) across.tap_step = 1;
  if (across.tap_step < 0) across.base -= across.taps - 1;
  const std::int64_t skipped = (across.base % kRunPiece + kRunPiece) % kRunPiece;
  across.base -= skipped;
  ColumnArgs<Word> args{};
  std::int64_t blocks = 0;
  if (!make_args(aligned, ColumnRun<Word, kStride>::kPack, kColumnThreads, &args, &blocks)) return false;
  column_runs<Word, kStride>
      <<<static_cast<unsigned>(blocks), kColumnThreads, 0, stream>>>(args, static_cast<std::uint32_t>(skipped));
  return true;
}

template <class Word>
bool launched_runs(const ColumnParams& params, cudaStream_t stream) {
  if (!has_runs<Word>(params)) return false;
  if (params.dims[2].stride == 1) return launch_runs<Word, 1>(params, stream);
  if constexpr (sizeof(Word) == 2) return launch_runs<Word, 2>(params, stream);
  return false;
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
      if (launched_runs<std::uint16_t>(params, stream)) return true;
      return words && outputs % 2 == 0 ? launch_typed<std::uint16_t, 2>(params, stream)
                                       : launch_typed<std::uint16_t, 1>(params, stream);
    case 4:
      if (launched_runs<std::uint32_t>(params, stream)) return true;
      return launch_typed<std::uint32_t, 1>(params, stream);
    default:
      return launch_typed<std::uint64_t, 1>(params, stream);
  }
}

}  // namespace gpudnn::kernels
