// The generator of dropout's masks against its authors' published answers, and the order of the bits.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/dropout/mask.hpp"
#include "ops/dropout/problem.hpp"

namespace gpudnn {
namespace {

void expect_block(const kernels::PhiloxBlock& counter, std::uint32_t key0, std::uint32_t key1,
                  const kernels::PhiloxBlock& answer) {
  // Three counters in step, the one in question last: the others must not disturb it.
  kernels::PhiloxBlock blocks[] = {{{1, 2, 3, 4}}, {{5, 6, 7, 8}}, counter};
  kernels::philox(blocks, key0, key1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(blocks[2].word[i], answer.word[i]) << i;
}

// The known answers of Philox4x32-10 that come with the paper's own implementation.
TEST(DropoutMask, PhiloxGivesTheKnownAnswers) {
  expect_block({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
  expect_block({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u, {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
  expect_block({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u, 0x299f31d0u,
               {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

TEST(DropoutMask, ThresholdsAreTheNearestMultiplesOfTwoToTheMinus16) {
  EXPECT_EQ(dropout::threshold_of(0), 0u);
  EXPECT_EQ(dropout::threshold_of(0.5f), 32768u);
  EXPECT_EQ(dropout::threshold_of(0.1f), 6554u);
  EXPECT_EQ(dropout::threshold_of(1), 65536u);
  EXPECT_EQ(kernels::mask_of_group(3, 5, 7, 0), 255u);
  EXPECT_EQ(kernels::mask_of_group(3, 5, 7, 65536), 0u);
}

TEST(DropoutMask, PositionsGoFromOneOrderToAnother) {
  TensorGeometry nchw;
  nchw.rank = 4;
  const std::int64_t dims[] = {2, 3, 1, 5};
  std::copy_n(dims, 4, nchw.dims);
  TensorGeometry nhwc = nchw;
  set_packed_strides(&nchw, GPUDNN_TENSOR_NCHW);
  set_packed_strides(&nhwc, GPUDNN_TENSOR_NHWC);
  const kernels::MaskOrder from = dropout::mask_order(nchw);
  const kernels::MaskOrder to = dropout::mask_order(nhwc);
  EXPECT_EQ(from.code, 0x124u);  // w fastest (4), then c (2), then n (1); h has one row
  EXPECT_EQ(to.code, 0x142u);
  for (std::uint64_t n = 0; n < 2; ++n) {
    for (std::uint64_t c = 0; c < 3; ++c) {
      for (std::uint64_t w = 0; w < 5; ++w) {
        EXPECT_EQ(kernels::position_in(to.code, from, (n * 3 + c) * 5 + w), (n * 5 + w) * 3 + c);
        EXPECT_EQ(kernels::position_in(from.code, to, (n * 5 + w) * 3 + c), (n * 3 + c) * 5 + w);
        EXPECT_EQ(kernels::position_in(from.code, from, (n * 3 + c) * 5 + w), (n * 3 + c) * 5 + w);
      }
    }
  }
  // A reserve space that no forward call wrote must not lead anywhere far.
  EXPECT_LT(kernels::position_in(0xffffffffu, from, 29), 30u);
  EXPECT_LT(kernels::position_in(0x89u, from, 29), 30u);
}

}  // namespace
}  // namespace gpudnn
