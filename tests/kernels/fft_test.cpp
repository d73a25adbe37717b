// Fourier convolutions in every config of every engine that has them: random problems, the accuracy of complex products
// in terms of bfloat16 next to that of multiply-adds and of the definition in float, over inputs that are hard for it,
// and values that are not finite.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/transform_outcomes.hpp"

namespace gpudnn::test {
namespace {

constexpr const char* kSplit = "fft_tiling_sm90";

// A problem with more tiles, channels and filters than a tile of the product has, and fewer.
ConvCase random_case(Random& random) {
  const auto number = [&](std::int64_t low, std::int64_t high) { return std::to_string(random.between(low, high)); };
  return random_transform_case(
      random, 0.7,
      [&] {
        return random.pick<std::int64_t>({1, 3, 8, 16, 17, 32, 36, 66, 70});
      },
      [&](const std::string& filters) {
        return "h" + number(1, 37) + "w" + number(1, 37) + " k" + filters + "r" + number(1, 13) + "s" + number(1, 13) +
               " p" + number(6, 7) + "x" + number(6, 7);
      });
}

TEST(Fourier, RandomProblems) {
  GPUDNN_NEEDS_GPU();
  expect_random_problems("fft", conv::Family::fft, kSplit, 60, random_case);
}

// What an image's elements are multiplied by: element i. `lost`: of the result's norm, what the terms do not hold of
// numbers below 2^-110. Those are the image's frequencies, each off by up to 2^-134, and larger than its elements by
// the root of a tile's pixels, 16 at the least.
struct Input {
  const char* name;
  double (*factor)(std::size_t i);
  double lost = 0;
};
constexpr Input kInputs[] = {
    {"uniform", [](std::size_t) { return 1.0; }},
    {"large", [](std::size_t) { return 0x1p90; }},
    {"small", [](std::size_t) { return 0x1p-100; }},
    {"denormal", [](std::size_t) { return 0x1p-130; }, 0x1p-134 / (0.25 * 0x1p-130) / 16},
    {"of many sizes", [](std::size_t i) { return std::ldexp(1.0, -static_cast<int>(i * 7 % 23)); }},
    // Neighbours cancel: what is left is small next to what was summed.
    {"cancelling", [](std::size_t i) { return i % 2 == 0 ? 1.0 : -1.0 + 0x1p-12; }},
};

// Next to multiply-adds in float, through the same transforms and of the definition (implicit_gemm_simt): products in
// terms leave out less than those round off.
TEST(Fourier, ProductsInTermsAreAsAccurateAsMultiplyAdds) {
  GPUDNN_NEEDS_GPU();
  Counts counts;
  for (const char* line : {"conv fwd f32 nchw n2c96h27w27 k40r5s5 p2x2 t1x1 d1x1 g1 math=fma",
                           "conv dgrad f32 nchw n2c40h28w28 k96r7s7 p3x3 t1x1 d1x1 g1 math=fma",
                           "conv wgrad f32 nchw n8c40h30w30 k33r5s5 p2x2 t1x1 d1x1 g1 math=fma"}) {
    for (const Input& input : kInputs) {
      ConvCase c = transform_case(line);
      c.integers = false;
      c.seed = session_seed();
      Values values = make_values(c);
      std::vector<double>& image = c.problem.direction == conv::Direction::dgrad ? values.y : values.x;
      for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(image[i] * input.factor(i));
      const Expected expected = naive(c, values);
      double split = 0;
      double multiplied = 0;
      double direct = 0;
      const auto note = [&](double* worst) {
        return [&expected, worst](const conv::ConvEngine&, const Outcome& outcome, const std::string&) {
          *worst = std::fmax(*worst, normwise_error(outcome.values, expected.value));
        };
      };
      for_each_outcome("fft_tiling_sm90", c, values, Placement::aligned, &counts, note(&split));
      for_each_outcome("fft_tiling_simt", c, values, Placement::aligned, &counts, note(&multiplied));
      for_each_outcome("implicit_gemm_simt", c, values, Placement::aligned, &counts, note(&direct));
      std::printf("  %.10s %s: %.2e, multiply-adds %.2e, the definition %.2e\n", line, input.name, split, multiplied,
                  direct);
      EXPECT_LE(split, 1.25 * multiplied + 0x1p-24 + input.lost) << line << ' ' << input.name;
    }
  }
  expect_sm90_launches(kSplit, counts);
}

// What the mathematics makes infinite or NaN is not finite.
TEST(Fourier, ValuesThatAreNotFiniteShow) {
  GPUDNN_NEEDS_GPU();
  expect_not_finite_where_due("fft", kSplit,
                              {"conv fwd f32 nchw n2c40h19w21 k33r5s5 p2x2 t1x1 d1x1 g1 math=fma",
                               "conv dgrad f32 nchw n2c33h19w21 k40r7s3 p1x1 t1x1 d1x1 g1 math=fma",
                               "conv wgrad f32 nchw n2c40h19w21 k36r5s5 p1x1 t1x1 d1x1 g1 math=fma"});
}

}  // namespace
}  // namespace gpudnn::test
