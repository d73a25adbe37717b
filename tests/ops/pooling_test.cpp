// Pooling through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/by_hand.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

PoolingCase pooling_case(const char* line) { return case_of(parsed(line, pooling::from_text)); }

const std::vector<double> kImage = {1, 2, 3, 4, 5, 6, 7, 8, 9};

TEST(Pooling, MaximumByHand) {
  Values values;
  values.x = kImage;
  expect_literal(pooling_case("pool fwd max f32 nchw n1c1h3w3 r2s2 p0x0 t1x1"), values, {5, 6, 8, 9});
}

// Gradients show which element was chosen: the first -infinity where there is nothing else, a NaN only if NaN count.
TEST(Pooling, MaximumOfInfinitiesAndNaN) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto expect_chosen = [](const char* nan, const std::vector<double>& x, const std::vector<double>& dx) {
    Values values;
    values.x = x;
    values.y = {0};
    values.dy = {1};
    expect_literal(pooling_case((std::string("pool bwd max f32 nchw n1c1h1w4 r1s4 p0x0 t1x1") + nan).c_str()), values,
                   dx);
  };
  expect_chosen("", {-kInf, -kInf, kNaN, -kInf}, {1, 0, 0, 0});
  expect_chosen("", {kNaN, -kInf, kNaN, -kInf}, {0, 1, 0, 0});
  expect_chosen("", {kNaN, kNaN, kNaN, kNaN}, {0, 0, 0, 0});
  expect_chosen("", {kNaN, -kInf, 3, kInf}, {0, 0, 0, 1});
  expect_chosen(" nan", {-kInf, 5, kNaN, kNaN}, {0, 0, 1, 0});
  expect_chosen(" nan", {-kInf, -kInf, -kInf, -kInf}, {1, 0, 0, 0});
}

TEST(Pooling, AveragesByHand) {
  Values values;
  values.x = kImage;
  // Windows of 2x2 from -1 in steps of 2: {1}, {2,3}, {4,7}, {5,6,8,9}.
  expect_literal(pooling_case("pool fwd avg_pad f32 nchw n1c1h3w3 r2s2 p1x1 t2x2"), values, {0.25, 1.25, 2.75, 7});
  expect_literal(pooling_case("pool fwd avg f32 nchw n1c1h3w3 r2s2 p1x1 t2x2"), values, {1, 2.5, 5.5, 7});
}

TEST(Pooling, MaximumBackwardGoesToTheFirstOfEquals) {
  Values values;
  values.x = {7, 7, 1, 7};
  values.y = {7};
  values.dy = {3};
  expect_literal(pooling_case("pool bwd max f16 nchw n1c1h2w2 r2s2 p0x0 t1x1"), values, {3, 0, 0, 0});
}

TEST(Pooling, MaximumBackwardAddsUpWhereWindowsOverlap) {
  Values values;
  values.x = {1, 9, 2};
  values.y = {9, 9};
  values.dy = {3, 4};
  expect_literal(pooling_case("pool bwd max_det f32 nchw n1c1h1w3 r1s2 p0x0 t1x1"), values, {0, 7, 0});
}

TEST(Pooling, AverageBackwardByHand) {
  Values values;
  values.x = kImage;
  values.y = {1, 2.5, 5.5, 7};
  values.dy = {4, 8, 12, 16};
  expect_literal(pooling_case("pool bwd avg f32 nchw n1c1h3w3 r2s2 p1x1 t2x2"), values, {4, 4, 4, 6, 4, 4, 6, 4, 4});
  expect_literal(pooling_case("pool bwd avg_pad f32 nchw n1c1h3w3 r2s2 p1x1 t2x2"), values,
                 {1, 2, 2, 3, 4, 4, 3, 4, 4});
}

// Extents of y other than the floor formula's: windows reach past the padded image, lie behind it, or are left out.
TEST(Pooling, OutputExtentsOfTheCallersChoice) {
  const double none = -0x1.FFFFFEp127;
  Values six, five, seven;
  six.x = {-2, -1, 0, 1, 2, 3};
  five.x = {-1.5, -0.5, 0.5, 1.5, 2.5};
  seven.x = {-7.5, -4.5, -1.5, 1.5, 4.5, 7.5, 10.5};
  const auto forward = [](const char* line, const Values& values, const std::vector<double>& expected) {
    SCOPED_TRACE(line);
    expect_literal(pooling_case(line), values, expected);
  };
  forward("pool fwd max f32 nchw n1c1w6 s3 p0 t2 out=3", six, {0, 2, 3});
  forward("pool fwd max f32 nchw n1c1w6 s3 p0 t2 out=1", six, {0});
  forward("pool fwd max f32 nchw n1c1w6 s3 p0 t2 out=4", six, {0, 2, 3, none});
  forward("pool fwd max_det f32 nchw n1c1w5 s2 p1 t2 out=4", five, {-1.5, 0.5, 2.5, none});
  forward("pool fwd avg_pad f32 nchw n1c1w6 s3 p0 t2 out=4", six, {-1, 1, 2.5, 0});
  forward("pool fwd avg_pad f32 nchw n1c1w5 s2 p1 t2 out=4", five, {-0.75, 0, 2, 0});
  forward("pool fwd avg_pad f32 nchw n1c1w7 s3 p1 t3 out=4", seven, {-4, 1.5, 6, 0});
  forward("pool fwd avg f32 nchw n1c1w6 s3 p0 t2 out=3", six, {-1, 1, 2.5});
  forward("pool fwd avg f32 nchw n1c1w7 s3 p1 t3 out=4", seven, {-6, 1.5, 9, 0});
  const auto backward = [](const char* line, Values values, std::size_t windows, const std::vector<double>& expected) {
    SCOPED_TRACE(line);
    values.dy.assign(windows, 6);
    values.y.assign(windows, 0);
    expect_literal(pooling_case(line), values, expected);
  };
  backward("pool bwd max f32 nchw n1c1w6 s3 p0 t2 out=4", six, 4, {0, 0, 6, 0, 6, 6});
  backward("pool bwd max f32 nchw n1c1w6 s3 p0 t2 out=1", six, 1, {0, 0, 6, 0, 0, 0});
  backward("pool bwd avg_pad f32 nchw n1c1w6 s3 p0 t2 out=4", six, 4, {2, 2, 4, 2, 5, 3});
  backward("pool bwd avg_pad f32 nchw n1c1w5 s2 p1 t2 out=4", five, 4, {3, 3, 3, 3, 3});
  backward("pool bwd avg f32 nchw n1c1w5 s2 p1 t2 out=4", five, 4, {6, 3, 3, 3, 3});
  backward("pool bwd avg f32 nchw n1c1w6 s3 p0 t2 out=1", six, 1, {2, 2, 2, 0, 0, 0});
}

TEST(Pooling, RandomProblems) {
  sweep(500, random_pooling,
        [](const PoolingCase& c, int i) { return check(Backend::at_hand(), c, {.misaligned = i % 5 == 4}); });
}

TEST(Pooling, HandPickedProblems) {
  check_all(cases_from_file<pooling::Problem>("pooling/edges.txt", pooling::from_text));
}

TEST(Pooling, DescriptorsKeepWhatWasSet) {
  PoolingDescriptor pool;
  ASSERT_EQ(gpudnnSetPooling2dDescriptor(pool, GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, GPUDNN_PROPAGATE_NAN, 3, 4,
                                         1, 2, 5, 6),
            GPUDNN_STATUS_SUCCESS);
  gpudnnPoolingMode_t mode;
  gpudnnNanPropagation_t nan;
  int window[2], pad[2], stride[2], count = 0;
  ASSERT_EQ(
      gpudnnGetPooling2dDescriptor(pool, &mode, &nan, &window[0], &window[1], &pad[0], &pad[1], &stride[0], &stride[1]),
      GPUDNN_STATUS_SUCCESS);
  const auto expect_all = [&] {
    EXPECT_EQ(mode, GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING);
    EXPECT_EQ(nan, GPUDNN_PROPAGATE_NAN);
    EXPECT_EQ(std::vector<int>(window, window + 2), (std::vector<int>{3, 4}));
    EXPECT_EQ(std::vector<int>(pad, pad + 2), (std::vector<int>{1, 2}));
    EXPECT_EQ(std::vector<int>(stride, stride + 2), (std::vector<int>{5, 6}));
  };
  expect_all();
  ASSERT_EQ(gpudnnGetPoolingNdDescriptor(pool, 2, &mode, &nan, &count, window, pad, stride), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 2);
  expect_all();

  const int window3[] = {1, 2, 3}, pad3[] = {0, 1, 2}, stride3[] = {3, 2, 1};
  ASSERT_EQ(gpudnnSetPoolingNdDescriptor(pool, GPUDNN_POOLING_MAX, GPUDNN_NOT_PROPAGATE_NAN, 3, window3, pad3, stride3),
            GPUDNN_STATUS_SUCCESS);
  int window_read[3], pad_read[3], stride_read[3];
  ASSERT_EQ(gpudnnGetPoolingNdDescriptor(pool, 3, &mode, &nan, &count, window_read, pad_read, stride_read),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(std::vector<int>(window_read, window_read + 3), std::vector<int>(window3, window3 + 3));
  EXPECT_EQ(std::vector<int>(pad_read, pad_read + 3), std::vector<int>(pad3, pad3 + 3));
  EXPECT_EQ(std::vector<int>(stride_read, stride_read + 3), std::vector<int>(stride3, stride3 + 3));
}

TEST(Pooling, OutputDimensions) {
  PoolingDescriptor pool;
  ASSERT_EQ(gpudnnSetPooling2dDescriptor(pool, GPUDNN_POOLING_MAX, GPUDNN_PROPAGATE_NAN, 3, 2, 1, 0, 2, 3),
            GPUDNN_STATUS_SUCCESS);
  const TensorDescriptor x(GPUDNN_DATA_FLOAT, 4, 5, 112, 113);
  int n, c, h, w;
  ASSERT_EQ(gpudnnGetPooling2dForwardOutputDim(pool, x, &n, &c, &h, &w), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ((std::vector<int>{n, c, h, w}), (std::vector<int>{4, 5, 56, 38}));
  int dims[4];
  ASSERT_EQ(gpudnnGetPoolingNdForwardOutputDim(pool, x, 4, dims), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(std::vector<int>(dims, dims + 4), (std::vector<int>{4, 5, 56, 38}));
}

}  // namespace
}  // namespace gpudnn::test
