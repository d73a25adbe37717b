// The plan of the Hopper matrix product, evaluated on the host: its work tiles cover each element of D and each k tile
// once, its tensor maps hold what the tiles read, and its candidates are ranked and allowed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm/sm90/work_tile.hpp"
#include "kernels/matmul/gemm_sm90.hpp"
#include "ops/matmul/gemm_sm90_model.hpp"

namespace gpudnn::kernels::matmul::sm90 {
namespace {

using gemm::sm90::work_tile;
using gemm::sm90::WorkTile;

constexpr int kMultiprocessors = 132;

Operand operand(Element type, std::int64_t rows, std::int64_t k, bool mn_major, const std::int64_t (&batch)[2]) {
  Operand x;
  x.type = type;
  x.mn_major = mn_major;
  const std::int64_t vector = 16 / element_bytes(type);
  x.row_stride = ((mn_major ? rows : k) + vector - 1) / vector * vector;
  x.batch_stride[1] = batch[1] > 1 ? x.row_stride * (mn_major ? k : rows) : 0;
  x.batch_stride[0] = batch[0] > 1 ? x.row_stride * (mn_major ? k : rows) * batch[1] : 0;
  return x;
}

Gemm random_gemm(std::mt19937* random) {
  const auto pick = [random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(*random);
  };
  constexpr Element kTypes[] = {Element::f16, Element::bf16, Element::f32, Element::e4m3};
  Gemm gemm;
  gemm.m = pick(1, 1500);
  gemm.n = pick(1, 1500);
  gemm.k = pick(1, 1200);
  gemm.batch[0] = pick(1, 3);
  gemm.batch[1] = pick(1, 4);
  const Element type = kTypes[pick(0, 3)];
  const bool any_major = element_bytes(type) == 2;
  gemm.a = operand(type, gemm.m, gemm.k, any_major && pick(0, 1) == 1, gemm.batch);
  gemm.b = operand(type, gemm.n, gemm.k, any_major && pick(0, 1) == 1, gemm.batch);
  gemm.is_plain = pick(0, 1) == 1;
  alignas(16) static char place[16];
  gemm.epilogue.d.data = place;
  gemm.epilogue.d.type = type == Element::e4m3 ? Element::bf16 : type;
  gemm.epilogue.d.n_stride = 1;
  gemm.epilogue.d.m_stride = (gemm.n + 7) / 8 * 8;
  gemm.epilogue.d.batch_stride[1] = gemm.epilogue.d.m_stride * gemm.m;
  gemm.epilogue.d.batch_stride[0] = gemm.epilogue.d.batch_stride[1] * gemm.batch[1];
  return gemm;
}

std::string text(const Gemm& gemm, const GemmConfig& config) {
  return "m" + std::to_string(gemm.m) + " n" + std::to_string(gemm.n) + " k" + std::to_string(gemm.k) + " batch " +
         std::to_string(gemm.batch[0]) + "x" + std::to_string(gemm.batch[1]) + " " + kTiles[config.tile].name +
         " multicast " + std::to_string(static_cast<int>(config.multicast)) + " splits " +
         std::to_string(config.splits) + " raster " + std::to_string(config.raster);
}

// Counts, for each tile of D, the k tiles that the blocks of the launch multiply into it.
void expect_covered(const Gemm& gemm, const GemmConfig& config) {
  const GemmPlan plan = plan_gemm_sm90(gemm, config, kMultiprocessors);
  const Params& p = plan.params;
  const TileShape& tile = kTiles[config.tile];
  const std::int64_t tiles_m = (gemm.m + tile.bm - 1) / tile.bm;
  const std::int64_t tiles_n = (gemm.n + tile.bn - 1) / tile.bn;
  std::vector<std::uint32_t> seen(static_cast<std::size_t>(tiles_m * tiles_n * gemm.batch[0] * gemm.batch[1]), 0);
  ASSERT_EQ(plan.blocks % plan.cluster, 0U);
  for (std::uint32_t block = 0; block < plan.blocks; ++block) {
    for (std::uint32_t i = block / plan.cluster; i < p.works; i += plan.blocks / plan.cluster) {
      const WorkTile work = work_tile(p, i, block % plan.cluster, static_cast<std::uint32_t>(tile.bm),
                                      static_cast<std::uint32_t>(tile.bn));
      if (work.m >= gemm.m || work.n >= gemm.n) continue;  // the second tile of a pair that has but one
      ASSERT_LT(work.batch[0], gemm.batch[0]);
      ASSERT_LT(work.batch[1], gemm.batch[1]);
      const std::int64_t batch = work.batch[0] * gemm.batch[1] + work.batch[1];
      seen[static_cast<std::size_t>((batch * tiles_m + work.m / tile.bm) * tiles_n + work.n / tile.bn)] +=
          work.k_end - work.k_begin;
    }
  }
  for (const std::uint32_t k_tiles : seen) ASSERT_EQ(k_tiles, p.k_tiles);
}

TEST(GemmSm90Plan, WorkTilesCoverEachElementOnce) {
  std::mt19937 random(std::random_device{}());
  int plans = 0;
  int plain_plans = 0;
  for (int i = 0; i < 60; ++i) {
    Gemm gemm = random_gemm(&random);
    if (i % 4 == 0) {  // where the types allow it, one for the tiles of plain sums
      gemm.n = (gemm.n + 7) / 8 * 8;
      gemm.is_plain = true;
      gemm.b = operand(gemm.a.type, gemm.n, gemm.k, false, gemm.batch);
    }
    for (int tile = 0; tile < kTileCount; ++tile) {
      for (const Multicast multicast : {Multicast::none, Multicast::a, Multicast::b}) {
        for (const int splits : {1, 2, 8}) {
          const GemmConfig config = {tile, multicast, splits, 1 + i % 9};
          if (unsupported_reason(gemm, config) != nullptr) continue;
          SCOPED_TRACE(text(gemm, config));
          expect_covered(gemm, config);
          if (HasFatalFailure()) return;
          ++plans;
          plain_plans += is_plain_tile(kTiles[tile]) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(plans, 500);
  EXPECT_GT(plain_plans, 0);
}

TEST(GemmSm90Plan, MapsHaveTheTensorsExtents) {
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 200; ++i) {
    const Gemm gemm = random_gemm(&random);
    const GemmConfig config = {0, Multicast::b, 1, 8};
    SCOPED_TRACE(text(gemm, config));
    const GemmPlan plan = plan_gemm_sm90(gemm, config, kMultiprocessors);
    const int bytes = element_bytes(gemm.a.type);
    EXPECT_EQ(plan.a.extent[gemm.a.mn_major ? 1 : 0], gemm.k);
    EXPECT_EQ(plan.a.extent[gemm.a.mn_major ? 0 : 1], gemm.m);
    EXPECT_EQ(plan.b.extent[gemm.b.mn_major ? 0 : 1], gemm.n);
    EXPECT_EQ(plan.a.box[0] * bytes, 128);
    // The pair shares B: each block loads half of its rows, an MN-major one whole boxes.
    EXPECT_EQ(plan.b.box[1], gemm.b.mn_major ? 64 : 128);
    for (const MapBoxes* boxes : {&plan.a, &plan.b, &plan.d}) {
      if (boxes == &plan.d && !plan.params.stores_boxes) continue;
      for (int d = 0; d < 3; ++d) {
        EXPECT_GT(boxes->step[d], 0);
        EXPECT_EQ(boxes->step[d] % 16, 0);
      }
      for (int d = 0; d < 4; ++d) {
        EXPECT_GE(boxes->extent[d], 1);
        EXPECT_LE(boxes->box[d], 256);
      }
    }
  }
}

// A batch that repeats has one matrix in the map, however it is told.
TEST(GemmSm90Plan, RepeatedBatches) {
  Gemm gemm;
  gemm.m = gemm.n = gemm.k = 64;
  gemm.batch[0] = 3;
  gemm.batch[1] = 8;
  gemm.a = operand(Element::bf16, 64, 64, false, gemm.batch);
  gemm.b = operand(Element::bf16, 64, 64, false, {3, 2});
  gemm.b.repeat[1] = 4;
  GemmPlan plan = plan_gemm_sm90(gemm, {}, kMultiprocessors);
  EXPECT_EQ(plan.b.extent[2], 2);
  EXPECT_EQ(plan.params.b_repeat[1].divisor, 4U);
  gemm.b.repeat[1] = 1;
  gemm.b.batch_stride[1] = 0;
  plan = plan_gemm_sm90(gemm, {}, kMultiprocessors);
  EXPECT_EQ(plan.b.extent[2], 1);
  EXPECT_EQ(plan.params.b_repeat[1].divisor, 8U);
  EXPECT_EQ(plan.params.b_repeat[1].quotient(7), 0U);
}

TEST(GemmSm90Plan, RefusesWhatTheKernelCannotDo) {
  Gemm gemm;
  gemm.m = gemm.n = gemm.k = 256;
  gemm.a = operand(Element::f32, 256, 256, true, gemm.batch);
  gemm.b = operand(Element::f32, 256, 256, false, gemm.batch);
  EXPECT_NE(unsupported_reason(gemm, {}), nullptr);  // TF32 is K-major
  gemm.a = operand(Element::bf16, 256, 256, true, gemm.batch);
  EXPECT_NE(unsupported_reason(gemm, {}), nullptr);  // two types
  gemm.b = operand(Element::bf16, 256, 256, true, gemm.batch);
  EXPECT_EQ(unsupported_reason(gemm, {}), nullptr);
  gemm.a.row_stride = 260;  // 520 bytes
  EXPECT_NE(unsupported_reason(gemm, {}), nullptr);
  gemm.a.row_stride = 256;
  GemmConfig config;
  config.splits = 8;
  EXPECT_NE(unsupported_reason(gemm, config), nullptr);  // four k tiles
}

TEST(GemmSm90Plan, CandidatesAreRankedAndAllowed) {
  const DeviceRates rates = device_rates({.name = "NVIDIA H200", .major = 9, .multiprocessors = kMultiprocessors});
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 100; ++i) {
    const Gemm gemm = random_gemm(&random);
    GemmConfig configs[16];
    const int count = gemm_sm90_candidates(gemm, rates, configs, 16);
    ASSERT_GT(count, 0);
    double before = 0;
    for (int c = 0; c < count; ++c) {
      SCOPED_TRACE(text(gemm, configs[c]));
      EXPECT_EQ(unsupported_reason(gemm, configs[c]), nullptr);
      const double seconds = gemm_sm90_seconds(gemm, configs[c], rates);
      EXPECT_GE(seconds, before);
      EXPECT_LT(seconds, 1.0);
      before = seconds;
    }
    // The first is the best of all that are allowed.
    for (int tile = 0; tile < kTileCount; ++tile) {
      const GemmConfig config = {tile, Multicast::none, 1, 8};
      if (unsupported_reason(gemm, config) != nullptr) continue;
      EXPECT_LE(gemm_sm90_seconds(gemm, configs[0], rates), gemm_sm90_seconds(gemm, config, rates));
    }
  }
}

}  // namespace
}  // namespace gpudnn::kernels::matmul::sm90
