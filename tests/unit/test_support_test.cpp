// The tests' own tools notice what they are there to notice.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/backend.hpp"
#include "support/cases.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

void set_byte(const Backend& backend, void* place, unsigned char byte) {
  GPUDNN_TEST_REQUIRE(gpudnnMemcpy(backend.handle(), place, &byte, 1, GPUDNN_MEMCPY_HOST_TO_DEVICE));
}

TEST(GuardedBuffer, NoticesOneByteBeforeAndBehind) {
  const Backend& backend = Backend::at_hand();
  const GuardedBuffer buffer(backend, 10, 2);
  EXPECT_EQ(buffer.damage(), "");
  auto* const data = static_cast<unsigned char*>(buffer.data());
  set_byte(backend, data + 9, 0);
  EXPECT_EQ(buffer.damage(), "");
  set_byte(backend, data + 10, 0);
  EXPECT_NE(buffer.damage().find("behind"), std::string::npos);
  const GuardedBuffer other(backend, 10);
  set_byte(backend, static_cast<unsigned char*>(other.data()) - 1, 0);
  EXPECT_NE(other.damage().find("before"), std::string::npos);
}

TEST(DeviceTensor, NoticesWrittenGapsAndInputs) {
  const Backend& backend = Backend::at_hand();
  TensorGeometry row;
  row.rank = 1;
  row.dims[0] = 3;
  row.strides[0] = 2;
  const std::vector<double> values = {1, 2, 3};
  const DeviceTensor tensor(backend, row, &values);
  EXPECT_EQ(tensor.values(), values);
  auto* const data = static_cast<unsigned char*>(tensor.data());
  set_byte(backend, data, 7);  // within the first element
  EXPECT_EQ(tensor.damage_outside_elements(), "");
  EXPECT_NE(tensor.damage_anywhere(), "");
  set_byte(backend, data + 4, 7);  // the gap behind it
  EXPECT_NE(tensor.damage_outside_elements().find("gap"), std::string::npos);
  const DeviceTensor poisoned(backend, row, nullptr);
  for (const double value : poisoned.values()) EXPECT_TRUE(std::isnan(value));
}

TEST(Mismatch, NoticesOneUnitInTheLastPlaceAndNan) {
  TensorGeometry pair;
  pair.type = GPUDNN_DATA_HALF;
  pair.rank = 1;
  pair.dims[0] = 2;
  pair.strides[0] = 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(mismatch(pair, {1, 2}, {{1, 2}, {0, 0}}), "");
  EXPECT_EQ(mismatch(pair, {1, 2}, {{1 + 0x1p-12, 2}, {0, 0}}), "") << "the exact value rounds to it";
  EXPECT_NE(mismatch(pair, {1, 2}, {{1 + 0x1p-10, 2}, {0, 0}}), "");
  EXPECT_EQ(mismatch(pair, {1, 2}, {{1 + 0x1p-10, 2}, {0x1p-10, 0}}), "");
  EXPECT_NE(mismatch(pair, {nan, 2}, {{1, 2}, {100, 0}}), "");
  EXPECT_NE(mismatch(pair, {1, 2}, {{nan, 2}, {0, 0}}), "");
  EXPECT_EQ(mismatch(pair, {nan, 2}, {{nan, 2}, {0, 0}}), "");
  EXPECT_NE(mismatch(pair, {1}, {{1, 2}, {0, 0}}), "");
}

TEST(Numbers, SmallFormatsAtTheirEnds) {
  EXPECT_EQ(round_to_type(65504, GPUDNN_DATA_HALF), 65504);
  EXPECT_EQ(round_to_type(65520, GPUDNN_DATA_HALF), std::numeric_limits<double>::infinity());
  EXPECT_EQ(round_to_type(0x1p-24, GPUDNN_DATA_HALF), 0x1p-24);
  EXPECT_EQ(round_to_type(0x1p-25, GPUDNN_DATA_HALF), 0);
  EXPECT_EQ(round_to_type(1 + 0x1p-8, GPUDNN_DATA_BFLOAT16), 1);
  EXPECT_EQ(round_to_type(1 + 3 * 0x1p-8, GPUDNN_DATA_BFLOAT16), 1 + 0x1p-6);
  EXPECT_EQ(greatest_finite(GPUDNN_DATA_BFLOAT16), 0x1.fep127);
}

}  // namespace
}  // namespace gpudnn::test
