// The tile of the gradients of weights on Hopper: by a count of cycles.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/weights_sm90.hpp"

#include <initializer_list>

#include "kernels/rnn/weights_place.hpp"

namespace gpudnn::kernels {
namespace {

constexpr std::int32_t divide_up(std::int32_t a, std::int32_t b) { return (a + b - 1) / b; }

std::uint32_t tiles_of(const RnnWeightsGroup& group, int width) {
  std::int32_t along_n = 0;
  for (const RnnWeightsMatrix& matrix : group.matrix) along_n += divide_up(matrix.n, width);
  return static_cast<std::uint32_t>(along_n * divide_up(group.m, kRnnWeightsRows));
}

// Cycles of a multiprocessor, fitted to an H200: a k tile is bound by the tensor cores or by what comes from the L2; a
// tile ends with its sums on their way to memory, and a cluster's blocks send theirs to each other first. The start is
// mostly code that comes from memory.
// Sets the plan's tiles and clusters too. Clusters divide all tiles, or the rest that is left over when all blocks have
// had as many whole ones.
double cycles_of(RnnWeights* plan, bool rest, int multiprocessors) {
  const RnnWeights& weights = *plan;
  const int width = weights.width;
  const int splits = weights.splits;
  constexpr double kStart = 10400;
  constexpr double kOfColumnOfKTile = 4.36;
  constexpr double kL2Bytes = 46;  // a cycle
  constexpr double kOfTile = 1750;
  constexpr double kOfColumn = 30;
  constexpr double kMeeting = 4850;
  constexpr double kSharedBytes = 9.3;  // a cycle, from block to block
  std::uint32_t tiles = 0;
  std::int32_t k_tiles = 0;
  std::int32_t least = 1 << 30;
  for (int i = 0; i < weights.groups; ++i) {
    tiles += tiles_of(weights.group[i], width);
    for (const RnnWeightsMatrix& matrix : weights.group[i].matrix) {
      const std::int32_t mine = matrix.part[0].k_tiles + matrix.part[1].k_tiles;
      if (matrix.n > 0 && mine > k_tiles) k_tiles = mine;
      if (matrix.n > 0 && mine < least) least = mine;
    }
  }
  // Clusters of more than two leave some multiprocessors out.
  const int slots = splits <= 2 ? multiprocessors / splits : multiprocessors * 10 / 11 / splits;
  if (slots < 1 || splits > least) return 1e30;
  const auto all = static_cast<std::int32_t>(tiles);
  const std::int32_t blocks = slots * splits;
  const std::int32_t whole = splits == 1 ? all : rest ? all / blocks * blocks : 0;
  if (rest && (whole == 0 || whole == all || all - whole > slots)) return 1e30;
  plan->tiles = tiles;
  plan->whole = static_cast<std::uint32_t>(whole);
  plan->clusters = static_cast<std::uint32_t>(rest || (splits == 1 && all > slots) ? slots : all);
  const double products = kOfColumnOfKTile * width;
  const double loads = (kRnnWeightsRows + divide_up(width, kRnnWeightsBox) * kRnnWeightsBox) * 128 / kL2Bytes;
  const double k_tile = products > loads ? products : loads;
  const double store = kOfTile + kOfColumn * width;
  const double sums = splits == 1 ? 0 : kMeeting + kRnnWeightsRows * width * 4 / kSharedBytes * (splits - 1) / splits;
  return kStart + divide_up(whole, blocks) * (k_tiles * k_tile + store) +
         divide_up(all - whole, slots) * (divide_up(k_tiles, splits) * k_tile + store / splits + sums);
}

bool is_whole(const RnnWeights& weights, int width) {
  for (int i = 0; i < weights.groups; ++i) {
    for (const RnnWeightsMatrix& matrix : weights.group[i].matrix) {
      if (matrix.n % width != 0) return false;
    }
  }
  return true;
}

}  // namespace

RnnWeightsPart rnn_weights_part(std::int64_t rows_of_a, std::int64_t row_of_a, std::int64_t rows) noexcept {
  const auto number = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
  const std::int64_t tiles = (rows + kRnnWeightsBox - 1) / kRnnWeightsBox;
  // Where a has rows behind the part, its last tile ends with it, and its first one begins before a does.
  const std::int64_t shift = row_of_a + rows < rows_of_a ? rows - tiles * kRnnWeightsBox : 0;
  RnnWeightsPart part;
  part.k_tiles = number(tiles);
  part.shift = number(shift);
  part.shift_of_a = number(row_of_a + shift);
  return part;
}

void plan_rnn_weights(RnnWeights* weights, int multiprocessors) noexcept {
  double least = 1e31;
  struct {
    int width, splits;
    bool rest;
  } best = {};
  const auto cycles = [&](int width, int splits, bool rest) {
    weights->width = width, weights->splits = splits;
    return cycles_of(weights, rest, multiprocessors);
  };
  const auto offer = [&](int width, int splits, bool rest) {
    const double time = cycles(width, splits, rest);
    if (time < least) least = time, best = {width, splits, rest};
  };
  for (const int width : kRnnWeightsWidths) {
    offer(width, 1, false);
    // Pairs are resident on all multiprocessors. Of matrices that leave tiles in part empty this took longer.
    if (width == 256 && is_whole(*weights, width)) offer(width, 2, true);
    for (const int splits : {2, 3, 4, 6, 8}) {
      if (splits > rnn_weights_max_splits(width)) break;
      offer(width, splits, false);
    }
  }
  (void)cycles(best.width, best.splits, best.rest);
  (void)rnn_weights_number_tiles(weights, kRnnWeightsRows, weights->width);
}

}  // namespace gpudnn::kernels
