// The lists of the gradients of weights, evaluated on the host as their kernels do: tiles cover each matrix once, and
// the parts of an operand meet each row once.
// SPDX-License-Identifier: Apache-2.0
#ifdef GPUDNN_WITH_CUDA  // the host has no such lists
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/rnn/weights_place.hpp"
#include "kernels/rnn/weights_sm90.hpp"
#include "support/random.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

using kernels::RnnWeights;
using kernels::RnnWeightsPart;

constexpr int kMultiprocessors = 132;

RnnWeights random_list(Random* random) {
  RnnWeights weights;
  weights.groups = static_cast<std::int32_t>(random->between(1, kernels::kRnnWeightsGroups));
  const auto rows =
      static_cast<std::int32_t>(random->chance(0.5) ? random->between(1, 200) : random->between(1, 30000));
  const bool is_whole = random->chance(0.3);
  for (std::int32_t i = 0; i < weights.groups; ++i) {
    weights.group[i].m = static_cast<std::int32_t>(random->between(1, 4100));
    for (kernels::RnnWeightsMatrix& matrix : weights.group[i].matrix) {
      if (&matrix != weights.group[i].matrix && random->chance(0.3)) continue;
      matrix.n = static_cast<std::int32_t>(is_whole ? 256 * random->between(1, 4) : random->between(1, 1100));
      matrix.part[0] = kernels::rnn_weights_part(rows, 0, rows);
    }
  }
  return weights;
}

TEST(RnnWeights, TilesCoverEachMatrixOnce) {
  std::map<int, int> widths;
  std::map<int, int> splits;
  int rests = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    Random random = case_random(session_seed(), i);
    RnnWeights weights = random_list(&random);
    plan_rnn_weights(&weights, kMultiprocessors);
    ++widths[weights.width];
    ++splits[weights.splits];
    ASSERT_LE(weights.splits, kernels::rnn_weights_max_splits(weights.width));
    ASSERT_TRUE(weights.splits > 1 || weights.whole == weights.tiles);
    // Each cluster divides one tile at most.
    ASSERT_LE(weights.tiles - weights.whole, weights.clusters);
    if (weights.whole > 0 && weights.whole < weights.tiles) ++rests;
    std::map<std::tuple<int, int, int, int>, int> seen;
    std::map<std::pair<int, int>, int> sums;
    for (std::uint32_t tile = 0; tile < weights.tiles; ++tile) {
      const auto place = kernels::rnn_weights_place(weights, tile, kernels::kRnnWeightsRows,
                                                    static_cast<std::uint32_t>(weights.width));
      const kernels::RnnWeightsGroup& group = weights.group[place.group];
      ASSERT_LT(place.m, group.m);
      ASSERT_LT(place.n, group.matrix[place.matrix].n);
      ++seen[{place.group, place.matrix, place.m, place.n}];
      if (place.sums) ++sums[{place.group, place.m}];
    }
    std::size_t tiles = 0;
    std::size_t rows = 0;
    for (std::int32_t g = 0; g < weights.groups; ++g) {
      const kernels::RnnWeightsGroup& group = weights.group[g];
      const std::size_t along_m =
          static_cast<std::size_t>((group.m + kernels::kRnnWeightsRows - 1) / kernels::kRnnWeightsRows);
      rows += along_m;
      for (const kernels::RnnWeightsMatrix& matrix : group.matrix) {
        tiles += along_m * static_cast<std::size_t>((matrix.n + weights.width - 1) / weights.width);
      }
    }
    ASSERT_EQ(seen.size(), tiles);
    ASSERT_EQ(weights.tiles, tiles);
    ASSERT_EQ(sums.size(), rows);
    for (const auto& [key, times] : sums) ASSERT_EQ(times, 1);
  }
  // Each tile is some list's, and reductions are divided, all or those that are left over.
  EXPECT_EQ(widths.size(), std::size(kernels::kRnnWeightsWidths));
  EXPECT_GT(splits.size(), 2u);
  EXPECT_GT(rests, 0);
}

// Which row of which part of b meets each row of a, as the kernel computes it. What a tile reaches beyond one of them
// has to be beyond the other, too: zeros meet zeros, and nothing that may be infinite.
void expect_parts_meet(std::int64_t steps, std::int64_t places, bool downwards) {
  const std::int64_t all = steps * places;
  const std::int64_t rows[] = {all - places, places};
  const std::int64_t row_of_a[] = {downwards ? 0 : places, downwards ? all - places : 0};
  std::vector<int> seen(static_cast<std::size_t>(all), 0);
  std::int64_t tiles = 0;
  for (int i = 0; i < 2; ++i) {
    const RnnWeightsPart part = kernels::rnn_weights_part(all, row_of_a[i], rows[i]);
    tiles += part.k_tiles;
    for (std::int64_t depth = 0; depth < std::int64_t{part.k_tiles} * kernels::kRnnWeightsBox; ++depth) {
      const std::int64_t of_a = depth + part.shift_of_a;
      const std::int64_t of_b = depth + part.shift;
      const bool exists = of_b >= 0 && of_b < rows[i];
      ASSERT_EQ(of_a >= 0 && of_a < all, exists);
      if (!exists) continue;
      ASSERT_EQ(of_a, row_of_a[i] + of_b);
      ++seen[static_cast<std::size_t>(of_a)];
    }
  }
  for (const int times : seen) ASSERT_EQ(times, 1);
  ASSERT_LE(tiles, (all + kernels::kRnnWeightsBox - 1) / kernels::kRnnWeightsBox + 1);
}

TEST(RnnWeights, PartsMeetEachRowOnce) {
  for (const std::int64_t places : {1, 7, 16, 32, 63, 64, 65, 100, 128, 200}) {
    for (const std::int64_t steps : {1, 2, 3, 5, 64, 129}) {
      for (const bool downwards : {false, true}) {
        SCOPED_TRACE(std::to_string(steps) + " steps of " + std::to_string(places) + (downwards ? " down" : " up"));
        expect_parts_meet(steps, places, downwards);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace gpudnn::test
#endif
