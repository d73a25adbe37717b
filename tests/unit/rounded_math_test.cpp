// The functions of kernels/tile/rounded_math.cuh over the floats: the bounds that the file names, and the limits.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tile/rounded_math.cuh"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/numerics.hpp"

namespace gpudnn::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

// Calls use(x) for finite floats of every exponent and both signs.
template <class Use>
void for_each_float(Use use) {
  constexpr std::uint32_t kStep = 10007;
  constexpr std::uint32_t kInfinityBits = 0x7f800000;
  for (std::uint32_t bits = 0; bits < kInfinityBits; bits += kStep) {
    use(std::bit_cast<float>(bits));
    use(-std::bit_cast<float>(bits));
  }
}

// |f(x) - exact(x)| <= 2^exponent |exact(x)| + 2^-30 |x|, but for subnormal results.
template <class F, class Exact>
void expect_within(F f, Exact exact, double exponent, double most) {
  int failures = 0;
  for_each_float([&](float x) {
    if (std::fabs(x) > most || failures > 3) return;
    const double expected = exact(static_cast<double>(x));
    const double error = std::fabs(static_cast<double>(f(x)) - expected);
    const double bound = std::exp2(exponent) * std::fabs(expected) + 0x1p-30 * std::fabs(x) + 0x1p-126;
    if (error > bound || std::isnan(error)) {
      ADD_FAILURE() << "f(" << x << ") = " << f(x) << ", not " << expected;
      ++failures;
    }
  });
}

double exact_gelu(double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); }
double exact_gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
double exact_swish(double x, double beta) { return x / (1 + std::exp(-beta * x)); }

constexpr double kAllFloats = 3.5e38;

TEST(RoundedMath, GeluKeepsItsBound) {
  expect_within(tile::rounded::gelu, exact_gelu, -13.3, 4.2);
  expect_within(tile::rounded::gelu, exact_gelu, -13, kAllFloats);
}

TEST(RoundedMath, GeluByTanhKeepsItsBound) {
  expect_within(tile::rounded::gelu_tanh, exact_gelu_tanh, -13.3, 4.2);
  expect_within(tile::rounded::gelu_tanh, exact_gelu_tanh, -13, kAllFloats);
}

TEST(RoundedMath, SwishKeepsItsBoundForEachBeta) {
  for (const float beta : {1.0f, 1.702f, 0.125f, 30.0f}) {
    SCOPED_TRACE(beta);
    expect_within([beta](float x) { return tile::rounded::swish(x, beta); },
                  [beta](double x) { return exact_swish(x, beta); }, -14.2, kAllFloats);
  }
}

TEST(RoundedMath, TanhKeepsItsBound) {
  const auto exact = [](double x) { return std::tanh(x); };
  expect_within(tile::rounded::tanh, exact, -14.8, 4.6);
  expect_within(tile::rounded::tanh, exact, -12.5, kAllFloats);
}

// What the tests and the verify mode allow holds the functions, but where f16 and bf16 have no number between them
// and 1.
TEST(RoundedMath, TheSlackHoldsTheBounds) {
  for_each_float([](float x) {
    const double expected = exact_gelu(x);
    EXPECT_LE(std::fabs(tile::rounded::gelu(x) - expected), numerics::rounded_curve_slack(expected, x) + 0x1p-126) << x;
  });
}

TEST(RoundedMath, TheLimitsAreThoseOfTheFunctions) {
  EXPECT_EQ(tile::rounded::gelu(-kInfinity), 0);
  EXPECT_EQ(tile::rounded::gelu(kInfinity), kInfinity);
  EXPECT_EQ(tile::rounded::gelu_tanh(-kInfinity), 0);
  EXPECT_EQ(tile::rounded::gelu_tanh(kInfinity), kInfinity);
  EXPECT_EQ(tile::rounded::swish(-kInfinity, 1), 0);
  EXPECT_EQ(tile::rounded::swish(kInfinity, 1), kInfinity);
  // Half of the distance from 1 to the number of f16 below it is 2^-12.
  EXPECT_NEAR(tile::rounded::tanh(kInfinity), 1, 0x1p-12);
  EXPECT_NEAR(tile::rounded::tanh(-kInfinity), -1, 0x1p-12);
}

TEST(RoundedMath, NanStaysNan) {
  EXPECT_TRUE(std::isnan(tile::rounded::gelu(kNan)));
  EXPECT_TRUE(std::isnan(tile::rounded::gelu_tanh(kNan)));
  EXPECT_TRUE(std::isnan(tile::rounded::swish(kNan, 1)));
  EXPECT_TRUE(std::isnan(tile::rounded::tanh(kNan)));
}

}  // namespace
}  // namespace gpudnn::test
