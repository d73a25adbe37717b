// Layer normalization: the problem's text, the reference by hand, and every engine against loops in double.
// SPDX-License-Identifier: Apache-2.0
#include "support/layer_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/handle.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using layer_norm::Problem;

Problem problem_of(const std::string& line) {
  std::string why;
  const auto problem = layer_norm::from_text(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  return *problem;
}

// Every engine of the backend at hand that takes the problem, with and without workspace, aligned and not, and as if on
// a device of one multiprocessor.
std::string check_engines(const LayerNormCase& c, int* runs) {
  if (validate(c.problem) != GPUDNN_STATUS_SUCCESS) return "refused: " + take_error_text();
  const Backend& backend = Backend::at_hand();
  const LayerNormValues values = make_values(c);
  const LayerNormExpected expected = naive(c, values);
  for (const LayerNormEngine& engine : layer_norm::engines()) {
    if (engine.backend != backend.kind() || !engine.supports(c.problem, *backend.handle()->device)) continue;
    ++*runs;
    const std::string wrong = verdict_or_error([&] {
      std::string found = check(backend, engine, c, values, expected);
      if (found.empty() && backend.is_cuda()) found = check(backend, engine, c, values, expected, {.misaligned = true});
      if (found.empty() && c.problem.backward() && backend.is_cuda())
        found = check(backend, engine, c, values, expected, {.without_workspace = true});
      // Blocks that have one row after the other, where the reference is quick.
      if (found.empty() && backend.is_cuda() && element_count(c.problem.x) < 100000)
        found = check(backend, engine, c, values, expected, {.multiprocessors = 1});
      return found;
    });
    if (!wrong.empty()) return std::string(engine.name) + ": " + wrong;
  }
  return {};
}

void expect_correct(const LayerNormCase& c) {
  int runs = 0;
  EXPECT_EQ(check_engines(c, &runs), "") << describe(c);
  EXPECT_GT(runs, 0) << describe(c);
}

LayerNormCase case_of(const std::string& line, std::uint64_t seed = 1) {
  LayerNormCase c;
  c.problem = problem_of(line);
  c.seed = seed;
  return c;
}

TEST(LayerNorm, TextRoundTrip) {
  for (int i = 0; i < 300; ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const Problem problem = random_layer_norm(random).problem;
    std::string why;
    const auto again = layer_norm::from_text(to_text(problem), &why);
    ASSERT_TRUE(again.has_value()) << to_text(problem) << ": " << why;
    EXPECT_EQ(to_text(problem), to_text(*again));
  }
}

TEST(LayerNorm, TextIsRefusedWithAReason) {
  const auto reason = [](const char* line) {
    std::string why;
    EXPECT_FALSE(layer_norm::from_text(line, &why).has_value()) << line;
    return why;
  };
  EXPECT_NE(reason("layer_norm batch infer f32 nchw 2x3").find("none of"), std::string::npos);
  EXPECT_NE(reason("layer_norm group infer f32 nchw n2c6h2w2").find("groups="), std::string::npos);
  EXPECT_NE(reason("layer_norm group infer f32 nchw n2c6h2w2 groups=4").find("divide"), std::string::npos);
  EXPECT_NE(reason("layer_norm layer infer f32 nchw 2x3 axes=5").find("below the rank"), std::string::npos);
  EXPECT_NE(reason("layer_norm layer infer f32 nchw 2x3 depth").find("depth"), std::string::npos);
}

TEST(LayerNorm, RefusesWithAReason) {
  Problem p = problem_of("layer_norm layer bwd f32 nchw 2x3");
  p.mean = {};
  EXPECT_EQ(validate(p), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("mean is missing"), std::string::npos);
  p = problem_of("layer_norm layer infer f32 nchw 2x3");
  p.scale.dims[1] = 2;
  EXPECT_EQ(validate(p), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("scale dims"), std::string::npos);
  p = problem_of("layer_norm layer infer f32 nchw 2x3");
  p.epsilon = -1;
  EXPECT_EQ(validate(p), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("epsilon"), std::string::npos);
}

// x = {1, 3}: mean 2, variance 1, so xhat = {-1, 1} with epsilon 0.
TEST(LayerNorm, ReferenceByHand) {
  const double x[] = {1, 3}, scale[] = {2, 5}, bias[] = {10, 20};
  double y[2], mean[1], inverse[1];
  layer_norm::Args args;
  args.x = x;
  args.scale = scale;
  args.bias = bias;
  args.out = y;
  args.mean = mean;
  args.inverse = inverse;
  const Backend& host = Backend::host();
  ASSERT_EQ(run(host.handle(), problem_of("layer_norm layer train f64 nchw 1x2 eps=0"), args), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(y[0], 8);
  EXPECT_EQ(y[1], 25);
  EXPECT_EQ(mean[0], 2);
  EXPECT_EQ(inverse[0], 1);
  // RMS: mean(x^2) = 5.
  ASSERT_EQ(run(host.handle(), problem_of("layer_norm rms train f64 nchw 1x2 eps=0"), args), GPUDNN_STATUS_SUCCESS);
  EXPECT_NEAR(inverse[0], 1 / std::sqrt(5.0), 1e-15);
  EXPECT_NEAR(y[1], 5 * 3 / std::sqrt(5.0) + 20, 1e-14);
}

// x + residual = {1.5, 3.5}, so xhat is as above; then ReLU and the factor.
TEST(LayerNorm, WhatStandsAroundItByHand) {
  const char* const line = "layer_norm layer infer f64 nchw 1x2 eps=0 residual sum act=relu factor amax";
  EXPECT_EQ(to_text(problem_of(line)), line);
  const double x[] = {1, 3}, residual[] = {0.5, 0.5}, scale[] = {2, 5}, bias[] = {-10, 20};
  const float factor = 0.5F;
  double y[2], sum[2];
  float amax = -1;
  layer_norm::Args args;
  args.x = x;
  args.residual = residual;
  args.sum = sum;
  args.scale = scale;
  args.bias = bias;
  args.factor = &factor;
  args.amax = &amax;
  args.out = y;
  ASSERT_EQ(run(Backend::host().handle(), problem_of(line), args), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(sum[0], 1.5);
  EXPECT_EQ(sum[1], 3.5);
  EXPECT_EQ(y[0], 0);  // max(-12, 0)
  EXPECT_EQ(y[1], 12.5);
  EXPECT_EQ(amax, 25);
  EXPECT_EQ(validate(problem_of("layer_norm layer infer f64 nchw 1x2 sum")), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("nothing is added to x"), std::string::npos);
  EXPECT_EQ(validate(problem_of("layer_norm layer bwd f64 nchw 1x2 factor")), GPUDNN_STATUS_BAD_PARAM);
}

// g = dy scale = {2, 10}; mean(g) = 6; mean(g xhat) = 4: dx = {2 - 6 + 4, 10 - 6 - 4} = 0, as any row of two.
TEST(LayerNorm, GradientsByHand) {
  const double x[] = {1, 3}, dy[] = {1, 2}, scale[] = {2, 5}, mean[] = {2}, inverse[] = {1};
  double dx[2], dscale[2], dbias[2];
  layer_norm::Args args;
  args.x = x;
  args.dy = dy;
  args.scale = scale;
  args.saved_mean = mean;
  args.saved_inverse = inverse;
  args.out = dx;
  args.dscale = dscale;
  args.dbias = dbias;
  ASSERT_EQ(run(Backend::host().handle(), problem_of("layer_norm layer bwd f64 nchw 1x2"), args),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(dx[0], 0);
  EXPECT_EQ(dx[1], 0);
  EXPECT_EQ(dscale[0], -1);
  EXPECT_EQ(dscale[1], 2);
  EXPECT_EQ(dbias[0], 1);
  EXPECT_EQ(dbias[1], 2);
}

TEST(LayerNorm, RandomProblems) {
  int runs = 0;
  sweep(
      300, [](Random& random) { return random_layer_norm(random); },
      [&](const LayerNormCase& c, int) { return check_engines(c, &runs); });
  EXPECT_GT(runs, 0);
}

// The file's lines in parts, which can run side by side: the reference takes seconds for some. The largest fill a GPU,
// and tell nothing of the host's loops.
constexpr std::size_t kFileParts = 8;
constexpr std::int64_t kHostLimit = 1 << 20;  // elements
class LayerNormCaseFile : public testing::TestWithParam<std::size_t> {};
TEST_P(LayerNormCaseFile, RunsOnEveryEngine) {
  const std::vector<std::string> lines = case_lines("norm/layer_norm.txt");
  ASSERT_GE(lines.size(), kFileParts);
  for (std::size_t i = GetParam(); i < lines.size(); i += kFileParts) {
    LayerNormCase c = case_of(lines[i]);
    if (!Backend::at_hand().is_cuda() && element_count(c.problem.x) > kHostLimit) continue;
    for (const std::size_t variant : {0u, 1u}) {
      c.offset = variant == 0 ? 0 : 5;
      if (runs_in_variant(i / kFileParts, variant, 2)) expect_correct(c);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, LayerNormCaseFile, testing::Range(std::size_t{0}, kFileParts));

// Each row alone is affected by what is no number, or by squares beyond the range of float.
TEST(LayerNorm, OddValuesKeepToTheirRow) {
  for (const char* mode : {"layer", "rms"}) {
    for (const std::string type : {"f32", "bf16"}) {
      for (const std::int64_t length : {8, 40, 127, 128, 512, 1000, 4096, 40960}) {
        for (const double value :
             {1e30, -1e30, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
          LayerNormCase c =
              case_of("layer_norm " + std::string(mode) + " infer " + type + " nchw 7x" + std::to_string(length));
          c.places = {2 * length + 3, 3 * length + length / 2};
          if (length > 8) c.places.push_back(3 * length + 1);
          c.placed = value;
          expect_correct(c);
        }
      }
    }
  }
}

// The same of groups of channels-last tensors, whose sets lie across each other in memory.
TEST(LayerNorm, OddValuesKeepToTheirGroup) {
  for (const char* line :
       {"layer_norm group infer f32 nhwc n3c24h17w20 groups=3", "layer_norm instance infer bf16 nhwc n3c8h9w9",
        "layer_norm group infer bf16 nhwc n2c80h40w40 groups=8",
        "layer_norm group infer f16 nhwc n2c40h10w10 groups=8"}) {
    for (const double value :
         {1e30, -1e30, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      LayerNormCase c = case_of(line);
      c.places = {5, element_count(c.problem.x) / 2 + 7};
      c.placed = value;
      expect_correct(c);
    }
  }
}

// As if the device had few multiprocessors: blocks that take many rows in turn, and large parts of samples.
void check_on_few_multiprocessors(const LayerNormCase& c, const char* name) {
  const Backend& backend = Backend::at_hand();
  const LayerNormValues values = make_values(c);
  const LayerNormExpected expected = naive(c, values);
  int runs = 0;
  for (const LayerNormEngine& engine : layer_norm::engines()) {
    if (std::string(engine.name) != name || !engine.supports(c.problem, *backend.handle()->device)) continue;
    for (const int multiprocessors : {1, 2, 5}) {
      ++runs;
      EXPECT_EQ(check(backend, engine, c, values, expected, {.multiprocessors = multiprocessors}), "")
          << describe(c) << " on " << multiprocessors;
    }
  }
  EXPECT_GT(runs, 0) << describe(c);
}

TEST(LayerNorm, ChannelsLastOnFewMultiprocessors) {
  if (!Backend::at_hand().is_cuda()) GTEST_SKIP() << "a matter of the device";
  for (const char* line :
       {"layer_norm group train f16 nhwc n5c40h50w50 groups=4", "layer_norm group bwd bf16 nhwc n5c40h50w50 groups=4",
        "layer_norm instance train f32 nhwc n3c16h90w90", "layer_norm instance bwd f32 nhwc n3c16h90w90",
        "layer_norm group train bf16 nhwc n21c64h16w16 groups=8", "layer_norm group bwd f16 nhwc n21c64h16w16 groups=8",
        "layer_norm group bwd f16 nhwc n2c320h32w32 groups=32", "layer_norm group bwd f32 nhwc n2c640h9w9 groups=1",
        "layer_norm group train bf16 nhwc n2c320h40w40 groups=32"}) {
    LayerNormCase c = case_of(line);
    c.offset = 3;
    check_on_few_multiprocessors(c, "channels_last");
  }
}

// Rows in turn of a warp's lanes, of a warp, of a block, and of a cluster; a value whose square exceeds the range.
TEST(LayerNorm, RowsInTurn) {
  if (!Backend::at_hand().is_cuda()) GTEST_SKIP() << "a matter of the device";
  for (const char* line : {"layer_norm layer train bf16 nchw 83x768",
                           "layer_norm rms train f16 nchw 61x1024 params=f16 nobias",
                           "layer_norm layer train f16 nchw 47x1280 params=f16",
                           "layer_norm layer train bf16 nchw 53x1528",
                           "layer_norm layer train bf16 nchw 71x4096",
                           "layer_norm rms infer bf16 nchw 71x5128 params=bf16 nobias",
                           "layer_norm layer train f16 nchw 31x12288 params=f16 out=f8e4m3",
                           "layer_norm layer train bf16 nchw 17x32768",
                           "layer_norm layer train f16 nchw 11x106496",
                           "layer_norm rms train bf16 nchw 23x12296 params=bf16 nobias",
                           "layer_norm layer train f16 nchw 19x24576 params=f16",
                           "layer_norm layer train bf16 nchw 14x65536",
                           "layer_norm ada train bf16 nchw n3c29w1600",
                           "layer_norm ada train bf16 nchw n5c24w1152",
                           "layer_norm group train f16 nchw n5c60h16w32 groups=4",
                           "layer_norm instance train bf16 nchw n9c6h64w64",
                           "layer_norm instance train bf16 nchw n5c6h96w98",
                           "layer_norm group train f32 nchw n3c12h60w64 groups=4",
                           "layer_norm layer infer bf16 nchw 37x4096 params=bf16 act=gelu",
                           "layer_norm layer infer f16 nchw 23x2048 params=f16 act=gelu out=f8e4m3"}) {
    LayerNormCase c = case_of(line);
    c.offset = 3;
    check_on_few_multiprocessors(c, "rows");
    if (c.problem.x.type == GPUDNN_DATA_HALF) continue;
    c.places = {element_count(c.problem.x) / 2};
    c.placed = 1e30;
    check_on_few_multiprocessors(c, "rows");
  }
}

// Backward: tiles of rows of which the last one is not full, of samples, of widths that leave threads without work.
TEST(LayerNorm, BackwardRowsInTurn) {
  if (!Backend::at_hand().is_cuda()) GTEST_SKIP() << "a matter of the device";
  for (const char* line : {"layer_norm layer bwd bf16 nchw 83x768", "layer_norm layer bwd f16 nchw 61x512 params=f16",
                           "layer_norm ada bwd bf16 nchw n3c29w1152", "layer_norm rms bwd bf16 nchw 45x1280 nodbias",
                           "layer_norm layer bwd f16 nchw 47x872", "layer_norm layer bwd bf16 nchw 99x264 nodscale",
                           "layer_norm ada bwd f16 nchw n5c24w600", "layer_norm layer bwd f32 nchw 83x128"}) {
    LayerNormCase c = case_of(line);
    c.offset = 3;
    check_on_few_multiprocessors(c, "rows");
  }
}

// A constant row: its deviations are 0, so y is the bias within the error of the mean.
TEST(LayerNorm, ConstantRows) {
  for (const std::int64_t length : {1, 2, 16, 768, 4096, 100000}) {
    LayerNormCase c = case_of("layer_norm layer train f32 nchw 3x" + std::to_string(length));
    c.offset = 0.1;
    c.magnitude = 0;
    expect_correct(c);
  }
}

// Thousands of deviations: moments of the values themselves would lose the digits that a few pixels leave.
TEST(LayerNorm, MeanFarAboveTheDeviation) {
  for (const char* line :
       {"layer_norm group train f32 nhwc n3c12h1w8 groups=3", "layer_norm group train f32 nhwc n2c24h9w11 groups=4",
        "layer_norm group train f32 nhwc n2c8h3w5 groups=4", "layer_norm instance train f32 nhwc n2c8h5w3",
        "layer_norm group infer f32 nhwc n2c64h20w20 groups=8", "layer_norm layer train f32 nchw 5x24",
        "layer_norm layer train f32 nchw 5x1000", "layer_norm group train f32 nchw n2c12h3w8 groups=3"}) {
    for (const std::uint64_t seed : {3387417023096667384ULL, 1ULL, 2ULL, 3ULL}) {
      LayerNormCase c = case_of(line, seed);
      c.offset = -30;
      c.magnitude = 0.01;
      expect_correct(c);
    }
  }
}

TEST(LayerNorm, LongRows) {
  for (const char* line : {"layer_norm layer train bf16 nchw 1x1048576", "layer_norm rms infer f32 nchw 2x1048584",
                           "layer_norm layer train f16 nchw 3x262144", "layer_norm layer bwd bf16 nchw 2x1048576",
                           "layer_norm layer bwd f16 nchw 5x49152", "layer_norm rms bwd f32 nchw 9x20480"}) {
    expect_correct(case_of(line));
  }
}

// Planes of many packs, in pieces of which the last one is shorter, by one block and by clusters.
TEST(LayerNorm, GroupsOfPlanes) {
  for (const char* line :
       {"layer_norm group bwd f16 nchw n3c24h32w32 groups=4", "layer_norm instance bwd bf16 nchw n3c5h40w40",
        "layer_norm group bwd f32 nchw n2c40h24w25 groups=8", "layer_norm group bwd bf16 nchw n2c30h64w66 groups=3",
        "layer_norm instance bwd f16 nchw n2c3h130w132", "layer_norm group bwd f16 nchw n1c64h16w16 groups=2 nodscale",
        "layer_norm instance bwd f32 nchw n2c3d9h16w20", "layer_norm group train f16 nchw n40c60h32w32 groups=10",
        "layer_norm instance train bf16 nchw n30c11h48w50"}) {
    expect_correct(case_of(line));
  }
  if (!Backend::at_hand().is_cuda()) return;
  // Beyond what a cluster holds, a set or some at a time.
  check_on_few_multiprocessors(case_of("layer_norm instance bwd f32 nchw n2c3d16h96w160"), "planes");
}

TEST(LayerNorm, TwentyRunsHaveTheSameBits) {
  const Backend& backend = Backend::at_hand();
  for (const char* line :
       {"layer_norm layer train bf16 nchw 60x4096", "layer_norm layer bwd bf16 nchw 700x1536",
        "layer_norm layer bwd f16 nchw 2000x128", "layer_norm layer bwd f16 nchw 400x768",
        "layer_norm layer train bf16 nchw 140x12288", "layer_norm layer train f16 nchw 300x2048",
        "layer_norm layer train bf16 nchw 270x16384", "layer_norm layer bwd f32 nchw 30x24576",
        "layer_norm instance bwd f16 nhwc n4c16h9w9", "layer_norm group train f16 nhwc n2c32h16w16 groups=4",
        "layer_norm group bwd bf16 nhwc n6c80h40w40 groups=8", "layer_norm group bwd f16 nchw n6c60h64w64 groups=6",
        "layer_norm group train f16 nchw n40c60h32w32 groups=10", "layer_norm instance train bf16 nchw n30c11h96w98",
        "layer_norm ada train bf16 nchw n9c96w1152"}) {
    const LayerNormCase c = case_of(line);
    const LayerNormValues values = make_values(c);
    const LayerNormExpected expected = naive(c, values);
    for (const LayerNormEngine& engine : layer_norm::engines()) {
      if (engine.backend != backend.kind() || !engine.supports(c.problem, *backend.handle()->device)) continue;
      const int runs = backend.is_cuda() ? 20 : 2;
      EXPECT_EQ(check(backend, engine, c, values, expected, {.runs = runs}), "") << line << ' ' << engine.name;
    }
  }
}

}  // namespace
}  // namespace gpudnn::test
