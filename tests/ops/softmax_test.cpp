// Softmax through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "support/by_hand.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

SoftmaxCase softmax_case(const char* line) { return case_of(parsed(line, softmax::from_text)); }

TEST(Softmax, ForwardByHand) {
  Values values;
  values.x = {0, std::log(3.0), 0, 0};
  for (const char* algorithm : {"fast", "accurate"}) {
    const std::string name = algorithm;
    // Over everything: weights 1, 3, 1, 1. Over channels (pairs one plane of two pixels apart): 1:1 and 3:1.
    expect_near(softmax_case(("softmax fwd " + name + " instance f64 nchw n1c2h1w2").c_str()), values,
                {1.0 / 6, 0.5, 1.0 / 6, 1.0 / 6});
    expect_near(softmax_case(("softmax fwd " + name + " channel f64 nchw n1c2h1w2").c_str()), values,
                {0.5, 0.75, 0.5, 0.25});
  }
  expect_near(softmax_case("softmax fwd log channel f64 nhwc n1c2h1w2"), values,
              {std::log(0.5), std::log(0.75), std::log(0.5), std::log(0.25)});
}

TEST(Softmax, BackwardByHand) {
  Values values;
  values.y = {0.25, 0.75};
  values.dy = {4, 8};
  // The sum of y dy is 7.
  expect_near(softmax_case("softmax bwd accurate channel f32 nchw n1c2h1w1"), values, {-0.75, 0.75});
  values.y = {std::log(0.25), std::log(0.75)};
  expect_near(softmax_case("softmax bwd log channel f64 nchw n1c2h1w1"), values, {1, -1});
}

TEST(Softmax, RandomProblems) {
  sweep(400, random_softmax,
        [](const SoftmaxCase& c, int i) { return check(Backend::at_hand(), c, {.misaligned = i % 5 == 4}); });
}

TEST(Softmax, HandPickedProblems) {
  check_all(cases_from_file<softmax::Problem>("softmax/edges.txt", softmax::from_text));
}

}  // namespace
}  // namespace gpudnn::test
