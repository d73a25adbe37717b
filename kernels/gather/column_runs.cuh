// The column buffer (columns.cuh) where rows are contiguous, taps are neighbours, at most eight in a row, and outputs
// come in whole packs of 16 bytes: by packs.
//
// The taps of a row read almost the same elements for neighbouring outputs. So a thread owns a pack of V outputs (8 or
// 4) and fetches, for each row of taps, the run of (V - 1) stride + taps elements that all of them need, in aligned
// pieces of four; each tap's pack is then made of registers, two halves by one permutation, and stored at once: 16
// bytes a tap where columns.cuh has 4 and two or more loads. Bytes: the buffer once, and the image.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gather/columns.cuh"

namespace gpudnn::kernels {

constexpr int kMaxRunTaps = 8;
constexpr int kRunPiece = 4;  // elements of a load

// Words of a run of 16-bit or 32-bit elements, from its first element on.
template <class Word, int kStride>
struct ColumnRun {
  static constexpr int kOfWord = 4 / static_cast<int>(sizeof(Word));  // elements
  static constexpr int kPack = 4 * kOfWord;                           // outputs of a thread
  static constexpr int kPieces = (kRunPiece - 1 + (kPack - 1) * kStride + kMaxRunTaps + kRunPiece - 1) / kRunPiece;
  static constexpr int kWordsOfPiece = kRunPiece / kOfWord;
  static constexpr int kWords = kPieces * kWordsOfPiece;
  std::uint32_t words[kWords];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = 0;
  }
  // The pieces from position `first` on, as far as elements before `end` (from `first`) are wanted.
  __device__ __forceinline__ void load(const Word* line, std::int32_t first, std::int32_t end, std::uint32_t extent) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const std::int32_t p = first + piece * kRunPiece;
      if (piece * kRunPiece < end && static_cast<std::uint32_t>(p) < extent) {
        const auto pack =
            tile::load_pack<std::uint32_t, kWordsOfPiece>(reinterpret_cast<const std::uint32_t*>(line + p));
#pragma unroll
        for (int i = 0; i < kWordsOfPiece; ++i) words[piece * kWordsOfPiece + i] = pack.data[i];
      }
    }
  }
  // Leaves out the first elements.
  __device__ __forceinline__ void skip(unsigned elements) {
    if (kOfWord == 2 && (elements & 1u) != 0) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = __funnelshift_r(words[i], i + 1 < kWords ? words[i + 1] : 0u, 16);
    }
#pragma unroll
    for (int by = 1; by <= (kRunPiece - 1) / kOfWord; by *= 2) {  // words
      if ((elements & static_cast<unsigned>(by * kOfWord)) == 0) continue;
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = i + by < kWords ? words[i + by] : 0u;
    }
  }
  // What tap `tap`, counted from the left, reads.
  __device__ __forceinline__ tile::Pack<std::uint32_t, 4> pack_of(int tap) const {
    tile::Pack<std::uint32_t, 4> pack;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int first = tap + i * kOfWord * kStride;  // element
      const int word = first / kOfWord;
      if constexpr (kOfWord == 1) {
        pack.data[i] = words[word];
      } else if (kStride == 1) {
        pack.data[i] = first % 2 == 0 ? words[word] : __byte_perm(words[word], words[word + 1], 0x5432);
      } else {
        pack.data[i] = __byte_perm(words[word], words[word + 1], first % 2 == 0 ? 0x5410 : 0x7632);
      }
    }
    return pack;
  }
};

// args.axis[2].base is that of the leftmost tap, less `skipped` elements, which make it a multiple of a piece.
template <class Word, int kStride>
__global__ void __launch_bounds__(kColumnThreads)
    column_runs(const __grid_constant__ ColumnArgs<Word> args, std::uint32_t skipped) {
  using Run = ColumnRun<Word, kStride>;
  std::uint32_t word_block;
  std::uint32_t share;
  const std::uint32_t channel = args.shares.divmod(args.word_blocks.divmod(blockIdx.x, &word_block), &share);
  const std::uint32_t pack = word_block * kColumnThreads + threadIdx.x;
  if (pack >= args.words) return;
  std::uint32_t q[kColumnSpatial];
  std::uint32_t rest = args.line_words.divmod(pack, &q[2]);
  rest = args.lines.divmod(rest, &q[1]);
  const Word* const x = args.x + channel * args.channel_step + args.planes.divmod(rest, &q[0]) * args.image_step;
  q[2] *= Run::kPack;
  std::int32_t at[kColumnSpatial];
#pragma unroll
  for (int d = 0; d < kColumnSpatial; ++d) {
    at[d] = static_cast<std::int32_t>(q[d]) * args.axis[d].stride + args.axis[d].base;
  }
  const std::uint32_t begin = share * args.rows_of_block;
  const std::uint32_t end = begin + args.rows_of_block < args.tap_rows ? begin + args.rows_of_block : args.tap_rows;
  const auto wanted = static_cast<std::int32_t>(skipped + (Run::kPack - 1) * kStride + args.taps);
  const std::int64_t row = args.axis[2].tap_step < 0 ? -args.row : args.row;
  Word* out = args.columns + (std::int64_t{channel} * args.tap_rows + begin) * args.taps * args.row +
              std::int64_t{pack} * Run::kPack;
  if (row < 0) out -= (args.taps - 1) * row;
#pragma unroll 1
  for (std::uint32_t tap_row = begin; tap_row < end; ++tap_row) {
    std::uint32_t tap[2];
    tap[0] = args.tap_lines.divmod(tap_row, &tap[1]);
    const Word* line = x;
    bool inside = true;
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      const std::int32_t p = at[d] + static_cast<std::int32_t>(tap[d]) * args.axis[d].tap_step;
      inside = inside && static_cast<std::uint32_t>(p) < args.axis[d].extent;
      line += std::int64_t{p} * args.axis[d].step;
    }
    Run run;
    run.clear();
    if (inside) run.load(line, at[2], wanted, args.axis[2].extent);
    run.skip(skipped);
    Word* to = out;
#pragma unroll
    for (int k = 0; k < kMaxRunTaps; ++k) {
      if (static_cast<std::uint32_t>(k) >= args.taps) break;
      tile::store_pack<std::uint32_t, 4>(reinterpret_cast<std::uint32_t*>(to), run.pack_of(k));
      to += row;
    }
    out += args.taps * args.row;
  }
}

}  // namespace gpudnn::kernels
