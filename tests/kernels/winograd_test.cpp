// Winograd convolutions in every config of every engine that has them: random problems, the accuracy of products in
// terms of bfloat16 next to that of multiply-adds, and values that are not finite.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/transform_outcomes.hpp"

namespace gpudnn::test {
namespace {

constexpr const char* kSplit = "winograd_sm90";

// A 3x3 problem with more tiles, channels and filters than a tile of the product has, and fewer.
ConvCase random_case(Random& random) {
  const auto number = [&](std::int64_t low, std::int64_t high) { return std::to_string(random.between(low, high)); };
  return random_transform_case(
      random, 0.5,
      [&] {
        return random.pick<std::int64_t>({1, 3, 8, 17, 32, 36, 64, 70, 129});
      },
      [&](const std::string& filters) {
        return "h" + number(1, 23) + "w" + number(1, 29) + " k" + filters + "r3s3 p" + number(1, 3) + "x" +
               number(1, 3);
      });
}

TEST(Winograd, RandomProblems) {
  GPUDNN_NEEDS_GPU();
  expect_random_problems("winograd", conv::Family::winograd, kSplit, 100, random_case);
}

// Of tiles with as many outputs, next to multiply-adds in float: the split leaves out less than those round off.
TEST(Winograd, ProductsInTermsAreAsAccurateAsMultiplyAdds) {
  GPUDNN_NEEDS_GPU();
  Counts counts;
  for (const char* line : {"conv fwd f32 nchw n2c192h17w20 k64r3s3 p1x1 t1x1 d1x1 g1 math=fma",
                           "conv dgrad f32 nhwc n2c64h16w16 k256r3s3 p1x1 t1x1 d1x1 g1 math=fma",
                           "conv wgrad f32 nchw n8c64h20w24 k48r3s3 p1x1 t1x1 d1x1 g1 math=fma"}) {
    ConvCase c = transform_case(line);
    c.integers = false;
    c.seed = session_seed();
    const Values values = make_values(c);
    const Expected expected = naive(c, values);
    std::map<std::string, double> split;  // by "f4x3" and "f2x3" the worst error
    std::map<std::string, double> multiplied;
    for_each_outcome("winograd", c, values, Placement::aligned, &counts,
                     [&](const conv::ConvEngine& engine, const Outcome& outcome, const std::string& choice) {
                       auto& errors = std::string(engine.name) == kSplit ? split : multiplied;
                       const std::size_t at = choice.find(' ');
                       double& worst = errors[choice.substr(at + 1, 4)];
                       worst = std::fmax(worst, normwise_error(outcome.values, expected.value));
                     });
    for (const auto& [tile, error] : split) {
      std::printf("  %s %s: %.2e, multiply-adds %.2e\n", line, tile.c_str(), error, multiplied[tile]);
      EXPECT_LE(error, 1.25 * multiplied[tile]) << line << ' ' << tile;
    }
  }
  expect_sm90_launches(kSplit, counts);
}

// What the mathematics makes infinite or NaN is not finite; what no tile with such a value meets is right.
TEST(Winograd, ValuesThatAreNotFiniteShow) {
  GPUDNN_NEEDS_GPU();
  expect_not_finite_where_due("winograd", kSplit,
                              {"conv fwd f32 nchw n2c40h19w21 k33r3s3 p1x1 t1x1 d1x1 g1 math=fma",
                               "conv dgrad f32 nhwc n2c33h19w21 k40r3s3 p1x1 t1x1 d1x1 g1 math=fma",
                               "conv wgrad f32 nchw n2c40h19w21 k36r3s3 p1x1 t1x1 d1x1 g1 math=fma"});
}

}  // namespace
}  // namespace gpudnn::test
