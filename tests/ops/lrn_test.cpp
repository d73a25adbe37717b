// Local response and divisive normalization through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include "support/lrn.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/by_hand.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

LrnCase lrn_case(const char* line) { return case_of(parsed(line, lrn::from_text)); }

void expect_literal(const LrnCase& c, const Values& values, const std::vector<double>& literal) {
  const Outcome outcome = run(Backend::at_hand(), c, values);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
  EXPECT_EQ(outcome.damage, "");
  ASSERT_EQ(outcome.values.size(), literal.size());
  const Expected expected = naive(c, values);
  for (std::size_t i = 0; i < literal.size(); ++i) {
    EXPECT_NEAR(outcome.values[i], literal[i], 2e-6 * std::fabs(literal[i])) << i;
    EXPECT_NEAR(expected.value[i], literal[i], 1e-12 * std::fabs(literal[i])) << "the oracle is wrong at " << i;
  }
}

TEST(Lrn, ForwardByHand) {
  Values values;
  values.x = {1, 2, 3};
  // Windows of 3 channels: s = 1 + 3/3 * (1 + 4), 1 + (1 + 4 + 9), 1 + (4 + 9); the power is the inverse.
  expect_literal(lrn_case("lrn fwd channel f32 nchw n1c3h1w1 n=3 alpha=3 beta=1 k=1"), values,
                 {1.0 / 6, 2.0 / 15, 3.0 / 14});
  // Of 2 channels: the own one and the next.
  expect_literal(lrn_case("lrn fwd channel f32 nchw n1c3h1w1 n=2 alpha=2 beta=1 k=1"), values,
                 {1.0 / 6, 2.0 / 14, 3.0 / 10});
  values.x = {3, 0};  // s = 7 + 9 = 16 in both windows, 16^(3/4) = 8
  expect_literal(lrn_case("lrn fwd channel f32 nchw n1c2h1w1 n=5 alpha=5 beta=0.75 k=7"), values, {3.0 / 8, 0});
}

TEST(Lrn, BackwardByHand) {
  Values values;
  values.x = {1, 2};
  values.dy = {6, 12};
  // s = 6 for both channels, so t = dy x / 36 = 1/6, 2/3, and dx = dy / 6 - 2 x (5/6).
  expect_literal(lrn_case("lrn bwd channel f32 nchw n1c2h1w1 n=3 alpha=3 beta=1 k=1"), values,
                 {1 - 5.0 / 3, 2 - 10.0 / 3});
  values.dy = {6, 0};
  // n = 2: s = 6 and 5; the window of channel 0 alone holds both: t = 1/6, 0.
  expect_literal(lrn_case("lrn bwd channel f32 nchw n1c2h1w1 n=2 alpha=2 beta=1 k=1"), values, {1 - 1.0 / 3, -2.0 / 3});
}

TEST(Lrn, DivisiveByHand) {
  Values values;
  values.x = {4, 5, 6, 7};
  values.z = {3, 3, 3, 3};
  // z = 1, 2, 3, 4 in a 2x2 image; windows of 3x3 hold all of it: s = 1 + 9/9 * 30.
  expect_literal(lrn_case("lrn fwd spatial f32 nchw n1c1h2w2 n=3 alpha=9 beta=1 k=1 means"), values,
                 {1.0 / 31, 2.0 / 31, 3.0 / 31, 4.0 / 31});
  values.dy = {31, 0, 0, 0};
  // t = 31 / 961 for the first element: dz = dy / 31 - 2 z / 31.
  const std::vector<double> dz = {1 - 2.0 / 31, -4.0 / 31, -6.0 / 31, -8.0 / 31};
  expect_literal(lrn_case("lrn bwd spatial f32 nchw n1c1h2w2 n=3 alpha=9 beta=1 k=1 means"), values, dz);
  std::vector<double> negative = dz;
  for (double& value : negative) value = -value;
  expect_literal(lrn_case("lrn bwd spatial f32 nchw n1c1h2w2 n=3 alpha=9 beta=1 k=1 means dmeans"), values, negative);
}

TEST(Lrn, RandomProblems) {
  sweep(400, random_lrn,
        [](const LrnCase& c, int i) { return check(Backend::at_hand(), c, {.misaligned = i % 5 == 4}); });
}

TEST(Lrn, HandPickedProblems) { check_all(cases_from_file<lrn::Problem>("lrn/edges.txt", lrn::from_text)); }

TEST(Lrn, TextReadsBack) {
  for (int i = 0; i < 200; ++i) {
    Random random = case_random(7, static_cast<std::uint64_t>(i));
    const std::string text = lrn::to_text(random_lrn(random).problem);
    std::string why;
    const auto problem = lrn::from_text(text, &why);
    ASSERT_TRUE(problem.has_value()) << text << ": " << why;
    EXPECT_EQ(lrn::to_text(*problem), text);
  }
}

TEST(Lrn, DescriptorKeepsWhatWasSetAndHasDefaults) {
  const LrnDescriptor norm;
  unsigned n = 0;
  double alpha = 0, beta = 0, k = 0;
  ASSERT_EQ(gpudnnGetLRNDescriptor(norm, &n, &alpha, &beta, &k), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(n, 5u);
  EXPECT_EQ(alpha, 1e-4);
  EXPECT_EQ(beta, 0.75);
  EXPECT_EQ(k, 2);
  ASSERT_EQ(gpudnnSetLRNDescriptor(norm, 16, -1, 0.01, 1e-5), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(gpudnnGetLRNDescriptor(norm, &n, &alpha, &beta, nullptr), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(n, 16u);
  EXPECT_EQ(alpha, -1);
  EXPECT_EQ(beta, 0.01);
}

TEST(Lrn, RefusesWhatIsOutOfBounds) {
  const LrnDescriptor norm;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(gpudnnSetLRNDescriptor(norm, 0, 1, 1, 1), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnSetLRNDescriptor(norm, 17, 1, 1, 1), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnSetLRNDescriptor(norm, 5, 1, 0.009, 1), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnSetLRNDescriptor(norm, 5, 1, nan, 1), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnSetLRNDescriptor(norm, 5, 1, 1, 9e-6), GPUDNN_STATUS_BAD_PARAM);
  unsigned n = 0;
  ASSERT_EQ(gpudnnGetLRNDescriptor(norm, &n, nullptr, nullptr, nullptr), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(n, 5u) << "a refused call changed the descriptor";

  const gpudnnHandle_t h = Backend::at_hand().handle();
  const TensorDescriptor x(GPUDNN_DATA_FLOAT, 1, 4, 2, 2), smaller(GPUDNN_DATA_FLOAT, 1, 4, 2, 1);
  const TensorDescriptor half(GPUDNN_DATA_HALF, 1, 4, 2, 2);
  const GuardedBuffer buffer(Backend::at_hand(), 256);
  void* const m = buffer.data();
  const Scalar one(1, GPUDNN_DATA_FLOAT), zero(0, GPUDNN_DATA_FLOAT);
  const auto mode = GPUDNN_LRN_CROSS_CHANNEL_DIM1;
  EXPECT_EQ(gpudnnLRNCrossChannelForward(h, norm, mode, one, x, m, zero, smaller, m), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnLRNCrossChannelForward(h, norm, mode, one, x, m, zero, half, m), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnLRNCrossChannelForward(h, norm, static_cast<gpudnnLRNMode_t>(1), one, x, m, zero, x, m),
            GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnDivisiveNormalizationForward(h, norm, GPUDNN_DIVNORM_PRECOMPUTED_MEANS, one, x, m, nullptr, nullptr,
                                               m, zero, x, m),
            GPUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace gpudnn::test
