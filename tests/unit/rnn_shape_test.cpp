// Split sweeps of recurrent networks: the memory that the workspace sets aside holds what any chosen shape exchanges.
// SPDX-License-Identifier: Apache-2.0
#ifdef GPUDNN_WITH_CUDA  // the host has no such sweeps
#include <gtest/gtest.h>

#include "kernels/rnn/resident.hpp"
#include "kernels/rnn/split.hpp"
#include "support/random.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

using kernels::RnnCell;

TEST(RnnSplitShape, ItsExchangeFitsIntoTheWorkspace) {
  // Clusters of 1, 2, 4, 8 and 16 blocks that are resident at once: an H200, one with fewer, one with nothing larger.
  constexpr int kDevices[][kernels::kRnnSplitClusterSizes] = {
      {132, 66, 30, 15, 7}, {114, 57, 28, 13, 5}, {132, 66, 0, 0, 0}};
  int shapes = 0;
  int without_clusters = 0;
  int of_two_wide_sets = 0;
  int direct = 0;
  int of_floats = 0;
  int wide = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    Random random = case_random(session_seed(), i);
    const RnnCell cell = random.pick({RnnCell::tanh, RnnCell::lstm, RnnCell::gru});
    const auto units = static_cast<std::int32_t>(random.chance(0.5) ? random.between(1, 260) : random.between(1, 2112));
    const auto batch = static_cast<std::int32_t>(random.chance(0.7) ? random.between(1, 70) : random.between(1, 600));
    const auto steps = static_cast<std::int32_t>(random.between(1, 60));
    const auto directions = static_cast<std::int32_t>(random.between(1, 2));
    const bool backward = random.chance(0.5);
    const int bytes = random.chance(0.3) ? 4 : 2;
    const auto& clusters = kDevices[random.between(0, 2)];
    const kernels::RnnSplitShape s =
        kernels::rnn_split_shape(cell, units, batch, directions, backward, bytes, clusters);
    if (s.parts == 0) continue;
    ++shapes;
    without_clusters += s.in_clusters ? 0 : 1;
    ASSERT_LE(kernels::rnn_split_state_bytes(s, directions, steps, kernels::kRnnSplitPeriod) +
                  kernels::rnn_split_sum_bytes(s, directions, steps),
              kernels::rnn_split_most_exchange_bytes(cell, units, batch, steps, directions, backward, bytes))
        << kernels::rnn_gates(cell) << " gates, " << units << " units, batch " << batch << ", " << steps << " steps, "
        << directions << " directions, backward " << backward;
    // Every place, unit and column has a block.
    ASSERT_GE(s.groups * s.owned * (s.direct ? 1 : s.parts), units);
    ASSERT_GE(s.tiles * s.places, batch);
    ASSERT_GE(s.panels * 128 / bytes * (s.direct ? s.parts : 1),
              s.groups * s.owned * (backward ? kernels::rnn_gates(cell) : 1));
    direct += s.direct ? 1 : 0;
    of_floats += s.floats ? 1 : 0;
    wide += kernels::rnn_split_is_wide(s) ? 1 : 0;
    ASSERT_EQ(s.floats, bytes == 4);
    // Threads of two sets keep what goes from step to step in registers where a tile has 32 places.
    const int kept = s.direct ? 0 : kernels::rnn_split_kept_tiles(s.places, s.sets);
    if (kept > 0) {
      ASSERT_LE(s.tiles, s.slices * s.sets * kept);
    }
    of_two_wide_sets += kept > 0 ? 1 : 0;
    const int blocks = s.groups * s.slices * directions;
    if (s.in_clusters) {
      int size = 0;
      while (1 << size < s.parts) ++size;
      ASSERT_LE(blocks, clusters[size]);
    } else {
      ASSERT_LE(blocks * s.parts, clusters[0]);
    }
  }
  EXPECT_GT(shapes, 1000);
  EXPECT_GT(without_clusters, 50);
  EXPECT_GT(direct, 1000);
  EXPECT_LT(direct, shapes - 500);
  EXPECT_GT(of_floats, 1000);
  EXPECT_GT(wide, 50);
  EXPECT_GT(of_two_wide_sets, 50);
}

// A sweep of few sequences stands where blocks of a resident sweep would: whatever it takes, they fit an H200 too, as
// they are what runs where a cluster is not to be had.
TEST(RnnGemv, TakesWhatResidentBlocksHold) {
  constexpr int kMultiprocessors = 132;
  int taken = 0;
  for (const RnnCell cell : {RnnCell::tanh, RnnCell::lstm, RnnCell::gru}) {
    for (const int bytes : {2, 4}) {
      for (const bool backward : {false, true}) {
        for (const bool across : {false, true}) {
          for (std::int32_t units = 1; units <= 1100; ++units) {
            kernels::RnnLayer l;
            l.cell = cell;
            l.type = bytes == 2 ? tile::ElementType::f16 : tile::ElementType::f32;
            l.units = units;
            l.rows.batch = kernels::kRnnGemvPlaces;
            if (!kernels::rnn_gemv_takes(l, across)) continue;
            ++taken;
            const auto shape = kernels::rnn_resident_shape(cell, units, l.rows.batch, across ? 8 : 2, across, backward,
                                                           bytes, kMultiprocessors);
            ASSERT_NE(shape.units, 0) << units << " units, " << bytes << " bytes, backward " << backward << ", across "
                                      << across;
            l.rows.batch = kernels::kRnnGemvPlaces + 1;
            ASSERT_FALSE(kernels::rnn_gemv_takes(l, across));
          }
        }
      }
    }
  }
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace gpudnn::test
#endif
