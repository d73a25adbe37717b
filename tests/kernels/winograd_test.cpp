// Winograd convolutions in every config of every engine that has them: random problems, the accuracy of products in
// terms of bfloat16 next to that of multiply-adds, and values that are not finite.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "support/transform_outcomes.hpp"
#include "support/transform_slack.hpp"

namespace gpudnn::test {
namespace {

constexpr const char* kSplit = "winograd_sm90";

ConvCase case_of(const std::string& line) {
  std::string why;
  ConvCase c;
  c.problem = conv::from_text(line, &why).value();
  return c;
}

// A 3x3 problem with more tiles, channels and filters than a tile of the product has, and fewer.
ConvCase random_case(Random& random) {
  const auto number = [&](std::int64_t low, std::int64_t high) { return std::to_string(random.between(low, high)); };
  const bool is_forward = random.chance(0.4);
  const std::int64_t groups = random.pick<std::int64_t>({1, 1, 1, 2, 3});
  const auto channels = [&] {
    const std::int64_t of_group = random.pick<std::int64_t>({1, 3, 8, 17, 32, 36, 64, 70, 129});
    return std::to_string(groups * (groups > 1 ? of_group % 40 + 1 : of_group));
  };
  std::string line = is_forward ? "conv fwd" : random.chance(0.5) ? "conv dgrad" : "conv wgrad";
  line += random.chance(0.5) ? " f32 nchw n" : " f32 nhwc n";
  line += number(1, 4) + "c" + channels() + "h" + number(1, 23) + "w" + number(1, 29) + " k" + channels() + "r3s3 p" +
          number(1, 3) + "x" + number(1, 3) + " t1x1 d1x1 g" + std::to_string(groups) +
          random.pick({" math=fma", " math=tensor", ""}) + (random.chance(0.25) ? " flip" : "");
  const bool has_epilogue = is_forward && random.chance(0.5);
  if (has_epilogue) line += random.pick({" act=relu bias z", " act=tanh bias", " act=identity bias z"});
  ConvCase c = case_of(line);
  if (random.chance(0.3) && !has_epilogue) {
    set_random_layout(random, &c.problem.x);
    set_random_layout(random, &c.problem.y);
    set_random_layout(random, &c.problem.w);
  }
  c.seed = random.bits();
  c.integers = random.chance(0.5);
  c.alpha = random.pick({1.0, -2.0});
  c.beta = has_epilogue ? 0 : random.pick({0.0, 0.25});
  c.alpha2 = c.problem.has_z != 0 ? 0.5 : 0;
  c.coef = has_epilogue ? 1 : 0;
  return c;
}

TEST(Winograd, RandomProblems) {
  GPUDNN_NEEDS_GPU();
  Counts counts;
  sweep(100, random_case, [&](const ConvCase& c, int i) -> std::string {
    const Values values = make_values(c);
    const Placement place = placement_of(i);
    std::string wrong;
    Expected expected = naive(c, values);
    widen_for_family(c, values, conv::Family::winograd, &expected);
    for_each_outcome("winograd", c, values, place, &counts,
                     [&](const conv::ConvEngine&, const Outcome& outcome, const std::string& choice) {
                       if (!wrong.empty()) return;
                       wrong = judge(output_of(c.problem), outcome, expected);
                       if (!wrong.empty()) wrong = choice + said_of(place) + wrong;
                     });
    return wrong;
  });
  expect_sm90_launches(kSplit, counts);
}

// Of tiles with as many outputs, next to multiply-adds in float: the split leaves out less than those round off.
TEST(Winograd, ProductsInTermsAreAsAccurateAsMultiplyAdds) {
  GPUDNN_NEEDS_GPU();
  Counts counts;
  for (const char* line : {"conv fwd f32 nchw n2c192h17w20 k64r3s3 p1x1 t1x1 d1x1 g1 math=fma",
                           "conv dgrad f32 nhwc n2c64h16w16 k256r3s3 p1x1 t1x1 d1x1 g1 math=fma",
                           "conv wgrad f32 nchw n8c64h20w24 k48r3s3 p1x1 t1x1 d1x1 g1 math=fma"}) {
    ConvCase c = case_of(line);
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
  Counts counts;
  for (const char* line : {"conv fwd f32 nchw n2c40h19w21 k33r3s3 p1x1 t1x1 d1x1 g1 math=fma",
                           "conv dgrad f32 nhwc n2c33h19w21 k40r3s3 p1x1 t1x1 d1x1 g1 math=fma",
                           "conv wgrad f32 nchw n2c40h19w21 k36r3s3 p1x1 t1x1 d1x1 g1 math=fma"}) {
    for (const bool of_filter : {false, true}) {
      ConvCase c = case_of(line);
      c.seed = session_seed();
      Values values = make_values(c);
      const bool is_wgrad = c.problem.direction == conv::Direction::wgrad;
      std::vector<double>& image = c.problem.direction == conv::Direction::dgrad ? values.y : values.x;
      std::vector<double>& place = !of_filter ? image : is_wgrad ? values.y : values.w;
      place[place.size() / 3] = std::numeric_limits<double>::infinity();
      place[place.size() / 2] = std::numeric_limits<double>::quiet_NaN();
      const Expected expected = naive(c, values);
      for_each_outcome("winograd", c, values, Placement::aligned, &counts,
                       [&](const conv::ConvEngine&, const Outcome& outcome, const std::string& choice) {
                         std::size_t finite = 0;
                         ASSERT_EQ(outcome.values.size(), expected.value.size()) << outcome.text;
                         for (std::size_t i = 0; i < expected.value.size(); ++i)
                           finite += !std::isfinite(expected.value[i]) && std::isfinite(outcome.values[i]) ? 1 : 0;
                         EXPECT_EQ(finite, 0u) << line << ' ' << choice;
                       });
    }
  }
  expect_sm90_launches(kSplit, counts);
}

}  // namespace
}  // namespace gpudnn::test
