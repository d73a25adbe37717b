// The bias gradient through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/naive.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

TEST(BiasGradient, ByHand) {
  std::string why;
  BiasGradCase c{};
  c.problem = bias_grad::from_text("biasgrad f16 nchw n2c2h1w2", &why).value();
  c.alpha = 0.5;
  c.beta = 1;
  Values values;
  values.dy = {1, 2, 3, 4, 5, 6, 7, 8};  // channel 0: 1, 2, 5, 6; channel 1: 3, 4, 7, 8
  values.out = {100, 200};
  const Outcome outcome = run(Backend::at_hand(), c, values);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
  EXPECT_EQ(outcome.values, (std::vector<double>{107, 211}));
  EXPECT_EQ(naive(c, values).value, (std::vector<double>{107, 211})) << "the oracle is wrong";
}

TEST(BiasGradient, RandomProblems) {
  sweep(300, random_bias_grad,
        [](const BiasGradCase& c, int i) { return check(Backend::at_hand(), c, {.misaligned = i % 5 == 4}); });
}

TEST(BiasGradient, HandPickedProblems) {
  check_all(cases_from_file<bias_grad::Problem>("bias_grad/edges.txt", bias_grad::from_text));
}

// More terms than half has numbers: the sum is formed in float and rounded once.
TEST(BiasGradient, LongHalfSumsAreExact) {
  std::string why;
  BiasGradCase c{};
  c.problem = bias_grad::from_text("biasgrad f16 nchw n4c3h100w100", &why).value();
  Values values;
  values.dy.assign(4 * 3 * 10000, 1);
  const Outcome outcome = run(Backend::at_hand(), c, values);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
  EXPECT_EQ(outcome.values, (std::vector<double>{40000, 40000, 40000}));
}

}  // namespace
}  // namespace gpudnn::test
