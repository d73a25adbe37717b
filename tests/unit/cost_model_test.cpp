// What the cost model says of footprints, against times worked out by hand.
// SPDX-License-Identifier: Apache-2.0
#include "core/cost_model.hpp"

#include <gtest/gtest.h>

namespace gpudnn {
namespace {

Device h200() {
  Device device;
  device.backend = GPUDNN_BACKEND_CUDA;
  device.major = 9;
  device.multiprocessors = 132;
  device.name = "NVIDIA H200";
  return device;
}

TEST(CostModel, OneRoundOfTilesTakesTheTimeOfOne) {
  const Device device = h200();
  Footprint f;
  f.unit = Unit::tensor_f16;
  f.flops = 797e12 * 1e-3;  // a millisecond of the whole device
  f.tiles = 132;
  const double launch = rates_of(device).launch_seconds;
  EXPECT_NEAR(estimate(f, device), 1e-3 + launch, 1e-9);
  // One tile more than multiprocessors is a second round, of tiles that are hardly smaller.
  f.tiles = 133;
  EXPECT_NEAR(estimate(f, device), 2e-3 * 132 / 133 + launch, 1e-9);
  // A single tile has one multiprocessor for all of the work.
  f.tiles = 1;
  EXPECT_NEAR(estimate(f, device), 132e-3 + launch, 1e-9);
  f.tiles = 132;
  f.efficiency = 0.5;
  EXPECT_NEAR(estimate(f, device), 2e-3 + launch, 1e-9);
}

TEST(CostModel, BytesBoundWhatOperationsDoNot) {
  const Device device = h200();
  Footprint f;
  f.flops = 1;
  f.dram_bytes = 4.27e9;
  f.launches = 2;
  EXPECT_NEAR(estimate(f, device), 1e-3 + 2 * rates_of(device).launch_seconds, 1e-9);
}

TEST(CostModel, RatesGoByTheDevicesName) {
  Device device = h200();
  const double h200_copy = rates_of(device).copy_bytes;
  device.name = "NVIDIA H100 80GB HBM3";
  EXPECT_LT(rates_of(device).copy_bytes, h200_copy);
  device.name = "another";
  device.major = 8;
  EXPECT_GT(rates_of(device).flops[static_cast<int>(Unit::tensor_f16)],
            rates_of(device).flops[static_cast<int>(Unit::fma_f32)]);
  EXPECT_GT(estimate({}, host_device()), 0);
}

}  // namespace
}  // namespace gpudnn
