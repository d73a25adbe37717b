// Softmax through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
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

// So many long rows that each cluster of a large GPU takes several in turn. All sums are exact.
TEST(Softmax, ManyLongRows) {
  constexpr int kRows = 96, kLength = 38001;
  constexpr double kWeight = 1.0 / 32768;
  Values values;
  values.y.assign(static_cast<std::size_t>(kRows) * kLength, kWeight);
  values.dy.assign(values.y.size(), 0);
  const auto ones = [](int row) { return 300 * row + 7; };  // at the end of the row
  for (int row = 0; row < kRows; ++row) {
    const auto end = values.dy.begin() + static_cast<std::ptrdiff_t>(row + 1) * kLength;
    std::fill(end - ones(row), end, 1);
  }
  const Outcome outcome =
      run(Backend::at_hand(), softmax_case("softmax bwd accurate instance f32 nchw n96c38001h1w1"), values);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
  ASSERT_EQ(outcome.values.size(), values.y.size());
  int wrong = 0;
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kLength; ++i) {
      const std::size_t at = static_cast<std::size_t>(row) * kLength + static_cast<std::size_t>(i);
      const double expected = kWeight * (values.dy[at] - kWeight * ones(row));
      if (outcome.values[at] != expected && ++wrong < 5) ADD_FAILURE() << "row " << row << ", element " << i;
    }
  }
  EXPECT_EQ(wrong, 0);
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
