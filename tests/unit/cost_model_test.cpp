// The cost model and the rates of devices.
// SPDX-License-Identifier: Apache-2.0
#include "core/cost_model.hpp"

#include <gtest/gtest.h>

#include "support/devices.hpp"

namespace gpudnn {
namespace {

DeviceRates round_numbers() {
  DeviceRates rates;
  rates.multiprocessors = 100;
  rates.clock = 1e9;
  rates.copy_bytes = 1e12;
  rates.l2_bytes = 5e12;
  rates.half_flops = 1e14;
  rates.launch_seconds = 2e-6;
  return rates;
}

// 100 tiles, one for each multiprocessor, of 10 k tiles of 1e6 operations at 1e12 a second each.
Footprint one_wave() {
  Footprint f;
  f.tiles = 100;
  f.k_tiles = 10;
  f.flops = 1e6;
  f.flops_rate = 1e14;
  return f;
}

TEST(CostModel, AWaveTakesItsProducts) { EXPECT_DOUBLE_EQ(estimate(one_wave(), round_numbers()), 2e-6 + 10 * 1e-6); }

TEST(CostModel, TilesThatFillNoWaveTakeAWholeOne) {
  Footprint f = one_wave();
  f.tiles = 101;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 2 * 10e-6);
  f.tiles = 1;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 10e-6);
  f.tiles = 60;
  f.slots = 50;  // such as clusters that find no room on all multiprocessors
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 2 * 10e-6);
}

TEST(CostModel, TheSlowestOfProductsL2AndMemoryCounts) {
  Footprint f = one_wave();
  f.efficiency = 0.5;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 20e-6);
  f.l2_bytes = 2e5;  // at 5e10 a second: 4 us a k tile
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 40e-6);
  f.dram_bytes = 1e8;  // 100 us
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 100e-6);
  f.shown = 0.1;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 100e-6 + 4e-6);
}

TEST(CostModel, CopiesOfRowsTakeTheirTimeBesideTheProducts) {
  Footprint f = one_wave();
  f.tma_cycles = 900;  // of the products' 1000
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 10e-6);
  f.tma_cycles = 2000;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 20e-6);
}

TEST(CostModel, HalfOfTheCyclesHideBehindProducts) {
  Footprint f = one_wave();
  f.cycles = 500;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 10 * 1.25e-6);
  f.flops = 0;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 10 * 0.5e-6);
}

TEST(CostModel, FewWarpsShowLatencies) {
  Footprint f = one_wave();
  f.warps = 4;
  f.latency_warps = 4;  // a rate of 4 / 8 * 20 / 16
  f.resident = 4;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 10e-6 / 0.625);
  f.tiles = 400;  // 16 warps: the full rate
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 4 * 10e-6);
}

TEST(CostModel, TheEpilogueOverlapsOnlyWhereItSaysSo) {
  Footprint f = one_wave();
  f.tiles = 300;
  f.store_rate = 1;
  f.store_bytes = 2e4;  // at 1e10 a second: 2 us
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 2e-6 + 3 * (10e-6 + 2e-6));
  f.store_overlaps = true;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 2e-6 + 3 * 10e-6);
}

TEST(CostModel, PartialSumsTakeASecondKernel) {
  Footprint f = one_wave();
  f.partial_bytes = 1.5e7;  // at 0.3 of the L2's rate
  f.reduce_seconds = 3e-6;
  EXPECT_DOUBLE_EQ(estimate(f, round_numbers()), 2e-6 + 10e-6 + 3e-6 + 10e-6);
}

TEST(DeviceRates, MeasuredOnesByName) {
  const DeviceRates h200 = test::h200().rates;
  EXPECT_EQ(h200.copy_bytes, 4.2e12);
  const DeviceRates h100 = device_rates({"NVIDIA H100 80GB HBM3", 9, 0, 132, 1.98e9, 2.6e9, 5120});
  EXPECT_EQ(h100.half_flops, h200.half_flops);
  EXPECT_LT(h100.copy_bytes, 0.75 * h200.copy_bytes);
}

TEST(DeviceRates, OthersByClockMultiprocessorsAndBus) {
  // What is known of the H200 by name comes out of its numbers, too.
  const DeviceRates known = test::h200().rates;
  const DeviceRates estimated = device_rates({"another", 9, 0, 132, 1.98e9, 3.2e9, 6144});
  EXPECT_NEAR(estimated.clock / known.clock, 1, 0.03);
  EXPECT_NEAR(estimated.copy_bytes / known.copy_bytes, 1, 0.03);
  EXPECT_NEAR(estimated.l2_bytes / known.l2_bytes, 1, 0.03);
  EXPECT_NEAR(estimated.half_flops / known.half_flops, 1, 0.03);
  EXPECT_NEAR(estimated.tf32_flops / known.tf32_flops, 1, 0.1);
  EXPECT_NEAR(estimated.mma_half_flops / known.mma_half_flops, 1, 0.03);
  EXPECT_NEAR(estimated.mma_tf32_flops / known.mma_tf32_flops, 1, 0.03);
  EXPECT_NEAR(estimated.fma_flops / known.fma_flops, 1, 0.03);

  // An A100: 312 TFLOP/s in f16 and 1555 GB/s by its data sheet.
  const DeviceRates a100 = device_rates({"NVIDIA A100-SXM4-40GB", 8, 0, 108, 1.41e9, 1.215e9, 5120});
  EXPECT_GT(a100.half_flops, 0.6 * 312e12);
  EXPECT_LT(a100.half_flops, 312e12);
  EXPECT_GT(a100.copy_bytes, 0.8 * 1.555e12);
  EXPECT_LT(a100.copy_bytes, 1.555e12);
  EXPECT_EQ(a100.mma_half_flops, a100.half_flops);

  // A part of an H200 is no H200.
  EXPECT_LT(device_rates({"NVIDIA H200 MIG 1g.18gb", 9, 0, 16, 1.98e9, 3.2e9, 768}).half_flops, known.half_flops / 7);
}

}  // namespace
}  // namespace gpudnn
