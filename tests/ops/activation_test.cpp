// Activation functions through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "support/by_hand.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

ActivationCase activation_case(const char* line) { return case_of(parsed(line, activation::from_text)); }

TEST(Activation, ForwardByHand) {
  Values values;
  values.x = {-2, -0.5, 0, 1, 3};
  expect_near(activation_case("act fwd relu f32 nchw n1c5h1w1"), values, {0, 0, 0, 1, 3});
  expect_near(activation_case("act fwd clipped_relu f32 nchw n1c5h1w1 coef=2"), values, {0, 0, 0, 1, 2});
  expect_near(activation_case("act fwd sigmoid f32 nchw n1c5h1w1"), values,
              {0.11920292, 0.37754067, 0.5, 0.73105858, 0.95257413});
  expect_near(activation_case("act fwd tanh f32 nchw n1c5h1w1"), values,
              {-0.96402758, -0.46211716, 0, 0.76159416, 0.99505475});
  expect_near(activation_case("act fwd elu f32 nchw n1c5h1w1 coef=0.5"), values, {-0.43233236, -0.19673467, 0, 1, 3});
  expect_near(activation_case("act fwd swish f32 nchw n1c5h1w1 coef=1"), values,
              {-0.23840584, -0.18877033, 0, 0.73105858, 2.85772238});
}

TEST(Activation, BackwardByHand) {
  Values values;
  values.x = {-2, 1, 3};
  values.dy = {10, 10, 10};
  values.y = {0, 1, 3};
  expect_near(activation_case("act bwd relu f32 nchw n1c3h1w1"), values, {0, 10, 10});
  values.y = {0, 1, 2};
  expect_near(activation_case("act bwd clipped_relu f32 nchw n1c3h1w1 coef=2"), values, {0, 10, 0});
  values.y = {round_to_type(0.11920292202211755, GPUDNN_DATA_FLOAT),
              round_to_type(0.7310585786300049, GPUDNN_DATA_FLOAT),
              round_to_type(0.9525741268224334, GPUDNN_DATA_FLOAT)};
  expect_near(activation_case("act bwd sigmoid f64 nchw n1c3h1w1"), values, {1.0499359, 1.9661193, 0.4517666});
}

TEST(Activation, RandomProblems) {
  sweep(500, random_activation,
        [](const ActivationCase& c, int i) { return check(Backend::at_hand(), c, {.misaligned = i % 5 == 4}); });
}

TEST(Activation, HandPickedProblems) {
  check_all(cases_from_file<activation::Problem>("activation/edges.txt", activation::from_text));
}

TEST(Activation, DescriptorsKeepWhatWasSet) {
  const ActivationDescriptor activation(GPUDNN_ACTIVATION_CLIPPED_RELU, GPUDNN_PROPAGATE_NAN, 6.5);
  gpudnnActivationMode_t mode;
  gpudnnNanPropagation_t nan;
  double coef = 0;
  double swish_beta = 0;
  ASSERT_EQ(gpudnnGetActivationDescriptor(activation, &mode, &nan, &coef), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(mode, GPUDNN_ACTIVATION_CLIPPED_RELU);
  EXPECT_EQ(nan, GPUDNN_PROPAGATE_NAN);
  EXPECT_EQ(coef, 6.5);
  ASSERT_EQ(gpudnnGetActivationDescriptorSwishBeta(activation, &swish_beta), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(swish_beta, 1);
  ASSERT_EQ(gpudnnSetActivationDescriptorSwishBeta(activation, 1.75), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(gpudnnGetActivationDescriptorSwishBeta(activation, &swish_beta), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(swish_beta, 1.75);
}

}  // namespace
}  // namespace gpudnn::test
