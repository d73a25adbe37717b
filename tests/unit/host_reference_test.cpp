// The host backend against results worked out by hand. Each case is a problem line, its data, and the answer.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "host/activation.hpp"
#include "host/bias_grad.hpp"
#include "host/convolution.hpp"
#include "host/pooling.hpp"
#include "host/softmax.hpp"
#include "host/tensor.hpp"

namespace gpudnn {
namespace {

using Values = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

template <class Problem>
Problem read(std::optional<Problem> (*from_text)(std::string_view, std::string*), const std::string& line) {
  std::string why;
  const auto problem = from_text(line, &why);
  if (!problem) throw std::invalid_argument(line + ": " + why);
  return *problem;
}

// An output that nobody may read: NaN in every element.
Values poisoned(const TensorGeometry& tensor) { return Values(static_cast<std::size_t>(element_span(tensor)), kNan); }

// The same values, NaN equal to NaN.
::testing::AssertionResult same(const Values& actual, const Values& expected) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " values, not " << expected.size();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
    return ::testing::AssertionFailure() << "value " << i << " is " << actual[i] << ", not " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult near(const Values& actual, const Values& expected) {
  if (actual.size() != expected.size()) return same(actual, expected);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) <= 2e-7f * (1 + std::abs(expected[i]))) continue;
    return ::testing::AssertionFailure() << "value " << i << " is " << actual[i] << ", not " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

// --- convolution ---------------------------------------------------------------------------------------------------

// Runs a float problem; `first` and `second` are its two inputs in the order x, w, y.
Values conv(const std::string& line, const Values& first, const Values& second, conv::Args args = {},
            const Values* old = nullptr) {
  const auto problem = read(conv::from_text, line);
  Values out = old != nullptr ? *old : poisoned(conv::output(problem));
  const bool forward = problem.direction == conv::Direction::forward;
  const bool filter = problem.direction == conv::Direction::wgrad;
  (problem.direction == conv::Direction::dgrad ? args.w : args.x) = first.data();
  (forward ? args.w : args.y) = second.data();
  EXPECT_EQ(first.size(), static_cast<std::size_t>(element_span(forward || filter ? problem.x : problem.w)));
  EXPECT_EQ(second.size(), static_cast<std::size_t>(element_span(forward ? problem.w : problem.y)));
  args.out = out.data();
  host::convolution(problem, args);
  return out;
}

const Values kOneToNine = {1, 2, 3, 4, 5, 6, 7, 8, 9};

TEST(HostConvolution, ForwardAndItsMirror) {
  const std::string line = "conv fwd f32 nchw n1c1h3w3 k1r2s2 p0x0 t1x1 d1x1 g1";
  EXPECT_TRUE(same(conv(line, kOneToNine, {1, 2, 3, 4}), {37, 47, 67, 77}));
  EXPECT_TRUE(same(conv(line + " flip", kOneToNine, {1, 2, 3, 4}), {23, 33, 53, 63}));
}

TEST(HostConvolution, ForwardWithPaddingAndStride) {
  EXPECT_TRUE(
      same(conv("conv fwd f32 nchw n1c1h3w3 k1r3s3 p1x1 t2x2 d1x1 g1", kOneToNine, Values(9, 1)), {12, 16, 24, 28}));
}

TEST(HostConvolution, ForwardWithUnequalParameters) {
  // Rows: padding 1, dilation 2, taps at -1 and 1; columns: stride 2, no padding.
  EXPECT_TRUE(
      same(conv("conv fwd f32 nchw n1c1h3w3 k1r2s1 p1x0 t1x2 d2x1 g1", kOneToNine, {1, 10}), {40, 60, 71, 93, 4, 6}));
}

TEST(HostConvolution, ForwardInOneDimensionWithDilation) {
  EXPECT_TRUE(same(conv("conv fwd f32 nchw n1c1w5 k1s2 p0 t1 d2 g1", {1, 2, 3, 4, 5}, {1, 10}), {31, 42, 53}));
}

TEST(HostConvolution, ForwardInThreeDimensions) {
  const Values eight = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_TRUE(same(conv("conv fwd f32 nchw n1c1d2h2w2 k1t2r2s2 p0x0x0 t1x1x1 d1x1x1 g1", eight, eight), {204}));
  EXPECT_TRUE(
      same(conv("conv fwd f32 nchw n1c1d2h2w2 k1t2r1s1 p0x0x0 t1x1x1 d1x1x1 g1", eight, {1, 10}), {51, 62, 73, 84}));
  EXPECT_TRUE(same(
      conv("conv fwd f32 nchw n1c1d2h2w1 k1t2r2s1 p0x0x0 t1x1x1 d1x1x1 g1", {1, 2, 3, 4}, {1, 10, 100, 1000}), {4321}));
  EXPECT_TRUE(same(conv("conv wgrad f32 nchw n1c1d2h2w1 k1t2r2s1 p0x0x0 t1x1x1 d1x1x1 g1", {1, 2, 3, 4}, {10}),
                   {10, 20, 30, 40}));
  EXPECT_TRUE(same(conv("conv dgrad f32 nchw n1c1d2h2w1 k1t2r2s1 p0x0x0 t1x1x1 d1x1x1 g1", {1, 2, 3, 4}, {10}),
                   {10, 20, 30, 40}));
}

TEST(HostConvolution, ForwardOverChannelsAndGroups) {
  EXPECT_TRUE(
      same(conv("conv fwd f32 nchw n1c4h1w1 k2r1s1 p0x0 t1x1 d1x1 g1", {1, 2, 3, 4}, {1, 10, 100, 1000, 5, 6, 7, 8}),
           {4321, 70}));
  EXPECT_TRUE(
      same(conv("conv fwd f32 nchw n1c4h1w1 k2r1s1 p0x0 t1x1 d1x1 g2", {1, 2, 3, 4}, {10, 20, 30, 40}), {50, 250}));
  EXPECT_TRUE(same(conv("conv fwd f32 nchw n2c2w2 k2s1 p0 t1 d1 g2", {1, 2, 3, 4, 5, 6, 7, 8}, {10, 100}),
                   {10, 20, 300, 400, 50, 60, 700, 800}));
}

TEST(HostConvolution, AlphaAndBeta) {
  const std::string line = "conv fwd f32 nchw n2c2w1 k1s1 p0 t1 d1 g1";
  const Values old = {1, 2};
  EXPECT_TRUE(same(conv(line, {1, 2, 3, 4}, {5, 6}, {.alpha = 2, .beta = 10}, &old), {44, 98}));
  EXPECT_TRUE(same(conv(line, {1, 2, 3, 4}, {5, 6}, {.alpha = -1}), {-17, -39})) << "beta 0 does not read the output";
}

TEST(HostConvolution, BackwardData) {
  EXPECT_TRUE(same(conv("conv dgrad f32 nchw n1c1w5 k1s3 p0 t2 d1 g1", {10, 20, 30}, {1, 2}), {10, 20, 50, 40, 60}));
  EXPECT_TRUE(
      same(conv("conv dgrad f32 nchw n1c1w5 k1s3 p0 t2 d1 g1 flip", {10, 20, 30}, {1, 2}), {30, 20, 70, 40, 20}));
  EXPECT_TRUE(same(conv("conv dgrad f32 nchw n1c1w3 k1s3 p1 t2 d1 g1", {10, 20, 30}, {1, 2}), {20, 50, 40}));
  // The last element is under no window.
  EXPECT_TRUE(same(conv("conv dgrad f32 nchw n1c1w6 k1s3 p0 t2 d1 g1", {10, 20, 30}, {1, 2}), {10, 20, 50, 40, 60, 0}));
  EXPECT_TRUE(same(conv("conv dgrad f32 nchw n1c1w5 k1s2 p0 t1 d2 g1", {1, 10}, {1, 2, 3}), {1, 2, 13, 20, 30}));
  EXPECT_TRUE(same(conv("conv dgrad f32 nchw n1c1h2w2 k1r2s2 p0x0 t1x1 d1x1 g1", {1, 2, 3, 4}, {5}), {5, 10, 15, 20}));
}

TEST(HostConvolution, BackwardDataOverChannelsAndGroups) {
  EXPECT_TRUE(same(conv("conv dgrad f32 nchw n1c2h1w1 k2r1s1 p0x0 t1x1 d1x1 g1", {10, 20, 30, 40}, {1, 2}), {70, 100}));
  EXPECT_TRUE(
      same(conv("conv dgrad f32 nchw n1c4h1w1 k2r1s1 p0x0 t1x1 d1x1 g2", {10, 20, 30, 40}, {1, 2}), {10, 20, 60, 80}));
  const Values old = {1, 1};
  EXPECT_TRUE(same(conv("conv dgrad f32 nchw n1c2h1w1 k2r1s1 p0x0 t1x1 d1x1 g1", {10, 20, 30, 40}, {1, 2},
                        {.alpha = 2, .beta = 3}, &old),
                   {143, 203}));
}

TEST(HostConvolution, BackwardFilter) {
  const Values five = {1, 2, 3, 4, 5};
  EXPECT_TRUE(same(conv("conv wgrad f32 nchw n1c1w5 k1s3 p0 t2 d1 g1", five, {1, 10}), {31, 42, 53}));
  EXPECT_TRUE(same(conv("conv wgrad f32 nchw n1c1w5 k1s3 p0 t2 d1 g1 flip", five, {1, 10}), {53, 42, 31}));
  EXPECT_TRUE(same(conv("conv wgrad f32 nchw n1c1w5 k1s2 p0 t1 d2 g1", five, {1, 10, 100}), {321, 543}));
  EXPECT_TRUE(same(conv("conv wgrad f32 nchw n1c1w3 k1s3 p1 t1 d1 g1", {1, 2, 3}, {1, 10, 100}), {210, 321, 32}));
  EXPECT_TRUE(same(conv("conv wgrad f32 nchw n1c1h3w3 k1r2s2 p0x0 t1x1 d1x1 g1", kOneToNine, {1, 10, 100, 1000}),
                   {5421, 6532, 8754, 9865}));
}

TEST(HostConvolution, BackwardFilterOverImagesChannelsAndGroups) {
  EXPECT_TRUE(same(conv("conv wgrad f32 nchw n2c2h1w1 k2r1s1 p0x0 t1x1 d1x1 g2", {1, 2, 3, 4}, {10, 100, 1000, 10000}),
                   {3010, 40200}));
  EXPECT_TRUE(
      same(conv("conv wgrad f32 nchw n1c2h1w1 k2r1s1 p0x0 t1x1 d1x1 g1", {1, 2}, {10, 100}), {10, 20, 100, 200}));
  const Values old = {1, 1, 1, 1};
  EXPECT_TRUE(same(
      conv("conv wgrad f32 nchw n1c2h1w1 k2r1s1 p0x0 t1x1 d1x1 g1", {1, 2}, {10, 100}, {.alpha = 0.5, .beta = 2}, &old),
      {7, 12, 52, 102}));
}

TEST(HostConvolution, FusedEpilogue) {
  const Values z = {1, 2, 3, 4};
  const Values bias = {-25, 100};
  conv::Args args;
  args.alpha2 = 10;
  args.z = z.data();
  args.bias = bias.data();
  // conv = 1 2 10 20; + 10 z = 11 22 40 60; + bias = -14 -3 140 160.
  const std::string line = "conv fwd f32 nchw n1c1w2 k2s1 p0 t1 d1 g1 bias z act=";
  EXPECT_TRUE(same(conv(line + "identity", {1, 2}, {1, 10}, args), {-14, -3, 140, 160}));
  EXPECT_TRUE(same(conv(line + "relu", {1, 2}, {1, 10}, args), {0, 0, 140, 160}));
  args.activation_coef = 150;
  EXPECT_TRUE(same(conv(line + "clipped_relu", {1, 2}, {1, 10}, args), {0, 0, 140, 150}));
  args.alpha2 = 0;
  args.z = nullptr;
  EXPECT_TRUE(same(conv(line + "identity", {1, 2}, {1, 10}, args), {-24, -23, 110, 120})) << "alpha2 0 does not read z";
  // The scale stands before the bias; below 0 ReLU has a slope where the call has one.
  const Values scale = {-2, 0.5};
  args.scale = scale.data();
  args.relu_slope = 0.25;
  const std::string scaled = "conv fwd f32 nchw n1c1w2 k2s1 p0 t1 d1 g1 scale bias act=";
  EXPECT_TRUE(same(conv(scaled + "identity", {1, 2}, {1, 10}, args), {-27, -29, 105, 110}));
  EXPECT_TRUE(same(conv(scaled + "relu", {1, 2}, {1, 10}, args), {-6.75, -7.25, 105, 110}));
}

TEST(HostConvolution, FusedEpilogueWithStrides) {
  auto problem = read(conv::from_text, "conv fwd f32 nchw n1c1w2 k2s1 p0 t1 d1 g1 bias z z:nhwc act=relu");
  problem.bias_stride = 3;
  const Values x = {1, 2};
  const Values w = {1, 10};
  const Values z = {1, 3, 2, 4};
  const Values bias = {-2, kNan, kNan, 100};
  Values y(4, kNan);
  host::convolution(problem,
                    {.x = x.data(), .w = w.data(), .out = y.data(), .alpha2 = 10, .z = z.data(), .bias = bias.data()});
  EXPECT_TRUE(same(y, {9, 20, 140, 160}));
}

TEST(HostConvolution, PaddingIsNeverMultiplied) {
  EXPECT_TRUE(same(conv("conv fwd f32 nchw n1c1w2 k1s3 p1 t1 d1 g1", {1, 2}, {kInfinity, 1, 0}), {1, kInfinity}));
}

TEST(HostConvolution, SumsAreRoundedOnce) {
  const auto problem = read(conv::from_text, "conv fwd f16 nchw n1c4h1w1 k1r1s1 p0x0 t1x1 d1x1 g1");
  const Half x[4] = {Half(2048), Half(1), Half(1), Half(1)};
  const Half w[4] = {Half(1), Half(1), Half(1), Half(1)};
  Half y[1] = {};
  conv::Args args;
  args.x = x;
  args.w = w;
  args.out = y;
  host::convolution(problem, args);
  EXPECT_EQ(static_cast<float>(y[0]), 2052) << "2051 is a tie between 2050 and 2052; the even one wins";
}

// Copies logical elements between layouts.
Values laid_out(const Values& packed, const TensorGeometry& tensor) {
  Values out = poisoned(tensor);
  tensor::Problem copy;
  copy.operation = tensor::Operation::transform;
  copy.a = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, tensor.rank, tensor.dims);
  copy.c = tensor;
  host::tensor(copy, {.a = packed.data(), .c = out.data()});
  return out;
}

Values random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (float& value : values) value = static_cast<float>(random() % 2000) / 1000 - 1;
  return values;
}

TEST(HostConvolution, EveryLayoutGivesTheSameNumbers) {
  for (const std::string direction : {"fwd", "dgrad", "wgrad"}) {
    const auto plain = read(conv::from_text, "conv " + direction + " f32 nchw n2c4h5w6 k6r3s2 p1x0 t2x1 d1x2 g2");
    const auto other =
        read(conv::from_text, "conv " + direction + " f32 strides=500,7,1,70 n2c4h5w6 k6r3s2 p1x0 t2x1 d1x2 " +
                                  "g2 w:nhwc y:strides=200,31,10,1");
    ASSERT_TRUE(same_dims(plain.y, other.y));
    const Values x = random_values(240, 1);
    const Values w = random_values(72, 2);
    const Values y = random_values(static_cast<std::size_t>(element_count(plain.y)), 3);
    Values expected = poisoned(conv::output(plain));
    Values actual = poisoned(conv::output(other));
    const Values x_other = laid_out(x, other.x);
    const Values w_other = laid_out(w, other.w);
    const Values y_other = laid_out(y, other.y);
    host::convolution(plain, {.x = x.data(), .w = w.data(), .y = y.data(), .out = expected.data()});
    host::convolution(other, {.x = x_other.data(), .w = w_other.data(), .y = y_other.data(), .out = actual.data()});
    EXPECT_TRUE(same(actual, laid_out(expected, conv::output(other)))) << direction << ": values, or gaps written to";
  }
}

TEST(HostConvolution, ThreadsDoNotChangeBits) {
  for (const std::string direction : {"fwd", "dgrad", "wgrad"}) {
    const auto problem = read(conv::from_text, "conv " + direction + " f32 nchw n3c8h17w19 k12r3s3 p1x1 t1x1 d1x1 g1");
    const Values x = random_values(static_cast<std::size_t>(element_count(problem.x)), 1);
    const Values w = random_values(static_cast<std::size_t>(element_count(problem.w)), 2);
    const Values y = random_values(static_cast<std::size_t>(element_count(problem.y)), 3);
    Values parallel = poisoned(conv::output(problem));
    Values alone = parallel;
    const auto run = [&](Values* out) {
      host::convolution(problem, {.x = x.data(), .w = w.data(), .y = y.data(), .out = out->data()});
    };
    run(&parallel);
    // Within a body everything runs on one thread.
    parallel_for(2, 1, [&](std::int64_t begin, std::int64_t) {
      if (begin == 0) run(&alone);
    });
    EXPECT_EQ(std::memcmp(parallel.data(), alone.data(), alone.size() * sizeof(float)), 0) << direction;
  }
}

TEST(HostBiasGrad, SumsImagesAndPixels) {
  const auto problem = read(bias_grad::from_text, "biasgrad f32 nchw n2c3w2");
  const Values dy = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};
  Values db(3, kNan);
  host::bias_grad(problem, {.dy = dy.data(), .db = db.data()});
  EXPECT_TRUE(same(db, {33, 77, 121}));
  host::bias_grad(problem, {.alpha = 2, .beta = 1, .dy = dy.data(), .db = db.data()});
  EXPECT_TRUE(same(db, {99, 231, 363}));
  const auto last = read(bias_grad::from_text, "biasgrad f32 nhwc n2c3w2");
  Values out(3, kNan);
  host::bias_grad(last, {.dy = dy.data(), .db = out.data()});
  EXPECT_TRUE(same(out, {1 + 4 + 10 + 40, 2 + 5 + 20 + 50, 3 + 6 + 30 + 60}));
  const auto apart = read(bias_grad::from_text, "biasgrad f32 nchw n2c3w2 db:strides=9,2,1");
  Values gaps(5, -1);
  host::bias_grad(apart, {.dy = dy.data(), .db = gaps.data()});
  EXPECT_TRUE(same(gaps, {33, -1, 77, -1, 121}));
}

// --- pooling -------------------------------------------------------------------------------------------------------

Values pool(const std::string& line, const Values& x, double alpha = 1, double beta = 0, const Values* old = nullptr) {
  const auto problem = read(pooling::from_text, line);
  Values y = old != nullptr ? *old : poisoned(problem.y);
  host::pooling(problem, {.alpha = alpha, .beta = beta, .x = x.data(), .out = y.data()});
  return y;
}

// With y as forward makes it.
Values pool_back(const std::string& line, const Values& x, const Values& dy) {
  const auto problem = read(pooling::from_text, line);
  auto ahead = problem;
  ahead.backward = false;
  Values y = poisoned(problem.y);
  host::pooling(ahead, {.x = x.data(), .out = y.data()});
  EXPECT_EQ(y.size(), dy.size());
  Values dx = poisoned(problem.dx);
  host::pooling(problem, {.x = x.data(), .y = y.data(), .dy = dy.data(), .out = dx.data()});
  return dx;
}

TEST(HostPooling, Maximum) {
  EXPECT_TRUE(same(pool("pool fwd max f32 nchw n1c1h3w3 r2s2 p0x0 t1x1", kOneToNine), {5, 6, 8, 9}));
  EXPECT_TRUE(same(pool("pool fwd max_det f32 nchw n1c1h3w3 r2s2 p1x1 t2x2", {-1, -2, -3, -4, -5, -6, -7, -8, -9}),
                   {-1, -2, -4, -5}))
      << "padding is never chosen";
  EXPECT_TRUE(same(pool("pool fwd max f32 nchw n1c2w4 s2 p0 t2", {1, 2, 3, 4, 8, 7, 6, 5}), {2, 4, 8, 6}));
  EXPECT_TRUE(same(pool("pool fwd max f32 nchw n1c1d2h2w2 t2r2s2 p0x0x0 t1x1x1", {1, 2, 3, 9, 5, 6, 7, 8}), {9}));
  EXPECT_TRUE(same(pool("pool fwd max f32 nchw n1c1w4 s2 p0 t3", {1, 2, 3, 4}), {2}));
}

TEST(HostPooling, Averages) {
  EXPECT_TRUE(same(pool("pool fwd avg_pad f32 nchw n1c1h3w3 r2s2 p1x1 t2x2", kOneToNine), {0.25, 1.25, 2.75, 7}));
  EXPECT_TRUE(same(pool("pool fwd avg f32 nchw n1c1h3w3 r2s2 p1x1 t2x2", kOneToNine), {1, 2.5, 5.5, 7}));
  const Values old = {1, 1, 1, 1};
  EXPECT_TRUE(same(pool("pool fwd avg f32 nchw n1c1h3w3 r2s2 p1x1 t2x2", kOneToNine, 2, 10, &old), {12, 15, 21, 24}));
}

TEST(HostPooling, WindowsOfPaddingAlone) {
  EXPECT_TRUE(same(pool("pool fwd max f32 nchw n1c1w2 s2 p2 t2", {1, 2}), {kLowest, 2, kLowest}));
  EXPECT_TRUE(same(pool("pool fwd avg f32 nchw n1c1w2 s2 p2 t2", {1, 2}), {0, 1.5, 0}));
  EXPECT_TRUE(same(pool("pool fwd avg_pad f32 nchw n1c1w2 s2 p2 t2", {1, 2}), {0, 1.5, 0}));
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1w2 s2 p2 t2", {1, 2}, {10, 100, 1000}), {0, 100}));
  EXPECT_TRUE(same(pool_back("pool bwd avg f32 nchw n1c1w2 s2 p2 t2", {1, 2}, {10, 100, 1000}), {50, 50}));
}

TEST(HostPooling, NanAndInfinity) {
  const Values x = {1, kNan, 3, kNan, kNan, -kInfinity, -kInfinity, kInfinity};
  EXPECT_TRUE(
      same(pool("pool fwd max f32 nchw n1c1w8 s2 p0 t1", x), {1, 3, 3, kLowest, -kInfinity, -kInfinity, kInfinity}));
  EXPECT_TRUE(same(pool("pool fwd max f32 nchw n1c1w8 s2 p0 t1 nan", x),
                   {kNan, kNan, kNan, kNan, kNan, -kInfinity, kInfinity}));
  EXPECT_TRUE(same(pool("pool fwd avg f32 nchw n1c1w8 s2 p0 t1", x), {kNan, kNan, kNan, kNan, kNan, -kInfinity, kNan}));
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1w3 s3 p0 t1", {1, kNan, 1}, {5}), {5, 0, 0}));
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1w3 s3 p0 t1 nan", {1, kNan, kNan}, {5}), {0, 5, 0}));
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1w2 s2 p0 t1", {kNan, kNan}, {5}), {0, 0}));
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1w2 s2 p0 t1", {-kInfinity, -kInfinity}, {5}), {5, 0}));
}

TEST(HostPooling, MaximumBackward) {
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1w3 s2 p0 t1", {1, 3, 2}, {10, 100}), {0, 110, 0}));
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1h2w2 r2s2 p0x0 t1x1", {7, 7, 7, 7}, {5}), {5, 0, 0, 0}))
      << "the first of equals";
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1h2w2 r2s2 p0x0 t1x1", {1, 7, 7, 7}, {5}), {0, 5, 0, 0}));
  EXPECT_TRUE(same(pool_back("pool bwd max f32 nchw n1c1w5 s2 p0 t3", {1, 2, 9, 4, 3}, {10, 100}), {0, 10, 0, 100, 0}))
      << "an element outside every window";
}

TEST(HostPooling, AverageBackward) {
  EXPECT_TRUE(same(pool_back("pool bwd avg_pad f32 nchw n1c1w3 s2 p1 t2", {1, 2, 3}, {10, 100}), {5, 50, 50}));
  EXPECT_TRUE(same(pool_back("pool bwd avg f32 nchw n1c1w3 s2 p1 t2", {1, 2, 3}, {10, 100}), {10, 50, 50}));
  EXPECT_TRUE(same(pool_back("pool bwd avg f32 nchw n1c1w3 s2 p0 t1", {1, 2, 3}, {10, 100}), {5, 55, 50}));
}

TEST(HostPooling, LowestOfTheNarrowTypes) {
  const auto lowest = []<class T>(const std::string& type) {
    const auto problem = read(pooling::from_text, "pool fwd max " + type + " nchw n1c1w1 s1 p1 t2");
    const T x[1] = {T(1.0f)};
    T y[2];
    host::pooling(problem, {.x = x, .out = y});
    return to_double(y[0]);
  };
  EXPECT_EQ(lowest.operator()<Half>("f16"), -65504);
  EXPECT_EQ(lowest.operator()<BFloat16>("bf16"), -0x1.fep127);
  EXPECT_EQ(lowest.operator()<double>("f64"), std::numeric_limits<double>::lowest());
}

// --- softmax -------------------------------------------------------------------------------------------------------

Values softmax(const std::string& line, const Values& x, double alpha = 1, double beta = 0,
               const Values* old = nullptr) {
  const auto problem = read(softmax::from_text, line);
  Values y = old != nullptr ? *old : poisoned(problem.y);
  host::softmax(problem, {.alpha = alpha, .beta = beta, .x = x.data(), .out = y.data()});
  return y;
}

TEST(HostSoftmax, ForwardOverChannelsOrTheInstance) {
  const auto ln = [](double value) { return static_cast<float>(std::log(value)); };
  const Values x = {0, ln(2), ln(3), ln(6)};  // two channels of two pixels
  EXPECT_TRUE(near(softmax("softmax fwd accurate channel f32 nchw n1c2h1w2", x), {0.25, 0.25, 0.75, 0.75}));
  EXPECT_TRUE(
      near(softmax("softmax fwd fast instance f32 nchw n1c2h1w2", x), {1 / 12.f, 2 / 12.f, 3 / 12.f, 6 / 12.f}));
  EXPECT_TRUE(near(softmax("softmax fwd log channel f32 nchw n1c2h1w2", x), {ln(0.25), ln(0.25), ln(0.75), ln(0.75)}));
  const Values old = {1, 1, 1, 1};
  EXPECT_TRUE(near(softmax("softmax fwd accurate channel f32 nchw n1c2h1w2", x, 4, 10, &old), {11, 11, 13, 13}));
}

TEST(HostSoftmax, NoFiniteInputGivesNan) {
  const float most = std::numeric_limits<float>::max();
  for (const std::string algorithm : {"fast", "accurate"}) {
    EXPECT_TRUE(
        same(softmax("softmax fwd " + algorithm + " channel f32 nchw n1c3h1w1", {most, -most, most}), {0.5, 0, 0.5}));
    EXPECT_TRUE(same(softmax("softmax fwd " + algorithm + " channel f32 nchw n1c2h1w1", {-most, -most}), {0.5, 0.5}));
  }
  EXPECT_TRUE(near(softmax("softmax fwd log channel f32 nchw n1c2h1w1", {1000, 0}), {0, -1000}));
  EXPECT_TRUE(same(softmax("softmax fwd accurate channel f32 nchw n1c2h1w1", {0, -kInfinity}), {1, 0}));
  EXPECT_TRUE(same(softmax("softmax fwd accurate channel f32 nchw n1c2h1w1", {0, kNan}), {kNan, kNan}));
}

TEST(HostSoftmax, Backward) {
  const auto run = [](const std::string& line, const Values& y, const Values& dy) {
    const auto problem = read(softmax::from_text, line);
    Values dx = poisoned(problem.dx);
    host::softmax(problem, {.y = y.data(), .dy = dy.data(), .out = dx.data()});
    return dx;
  };
  EXPECT_TRUE(same(run("softmax bwd accurate channel f32 nchw n1c2h1w1", {0.25, 0.75}, {1, 2}), {-0.1875, 0.1875}));
  const Values log_y = {static_cast<float>(std::log(0.25)), static_cast<float>(std::log(0.75))};
  EXPECT_TRUE(near(run("softmax bwd log channel f32 nchw n1c2h1w1", log_y, {1, 2}), {0.25, -0.25}));
  EXPECT_TRUE(same(run("softmax bwd fast instance f32 nchw n1c1h1w2", {0.25, 0.75}, {1, 2}), {-0.1875, 0.1875}));
  EXPECT_TRUE(same(run("softmax bwd fast channel f32 nchw n1c1h1w2", {1, 1}, {1, 2}), {0, 0})) << "groups of one";
}

TEST(HostSoftmax, InPlaceAndChannelsLast) {
  const auto problem = read(softmax::from_text, "softmax fwd accurate channel f32 nhwc n2c2h1w2");
  Values x = {0, std::log(3.f), 5, 5, std::log(3.f), 0, -100, -100};
  host::softmax(problem, {.x = x.data(), .out = x.data()});
  EXPECT_TRUE(near(x, {0.25, 0.75, 0.5, 0.5, 0.75, 0.25, 0.5, 0.5}));
}

// --- activations ---------------------------------------------------------------------------------------------------

Values act(const std::string& line, const Values& x) {
  const auto problem = read(activation::from_text, line);
  Values y = poisoned(problem.y);
  host::activation(problem, {.x = x.data(), .out = y.data()});
  return y;
}

// The gradient with y as forward makes it and dy = 10.
Values act_back(const std::string& line, const Values& x) {
  const auto problem = read(activation::from_text, line);
  auto ahead = problem;
  ahead.backward = false;
  Values y = poisoned(problem.y);
  host::activation(ahead, {.x = x.data(), .out = y.data()});
  const Values dy(x.size(), 10);
  Values dx = poisoned(problem.dx);
  host::activation(problem, {.x = x.data(), .y = y.data(), .dy = dy.data(), .out = dx.data()});
  return dx;
}

TEST(HostActivation, Forward) {
  EXPECT_TRUE(near(act("act fwd sigmoid f32 nchw 3", {0, std::log(3.f), -std::log(3.f)}), {0.5, 0.75, 0.25}));
  EXPECT_TRUE(same(act("act fwd relu f32 nchw 4", {-1, -0.f, 0, 2}), {0, 0, 0, 2}));
  EXPECT_TRUE(near(act("act fwd tanh f32 nchw 3", {0, std::log(2.f), -std::log(3.f)}), {0, 0.6f, -0.8f}));
  EXPECT_TRUE(same(act("act fwd clipped_relu f32 nchw 4 coef=1.5", {-1, 1, 1.5, 9}), {0, 1, 1.5, 1.5}));
  EXPECT_TRUE(near(act("act fwd elu f32 nchw 3 coef=2", {3, 0, -std::log(4.f)}), {3, 0, -1.5}));
  EXPECT_TRUE(same(act("act fwd identity f32 nchw 3", {-3, 0, kInfinity}), {-3, 0, kInfinity}));
  EXPECT_TRUE(near(act("act fwd swish f32 nchw 2 coef=2", {0, std::log(2.f)}), {0, 0.8f * std::log(2.f)}));
}

TEST(HostActivation, Backward) {
  EXPECT_TRUE(near(act_back("act bwd sigmoid f32 nchw 2", {0, std::log(3.f)}), {2.5, 1.875}));
  EXPECT_TRUE(same(act_back("act bwd relu f32 nchw 3", {-1, 0, 2}), {0, 0, 10}));
  EXPECT_TRUE(near(act_back("act bwd tanh f32 nchw 2", {0, std::log(2.f)}), {10, 6.4f}));
  EXPECT_TRUE(same(act_back("act bwd clipped_relu f32 nchw 4 coef=1.5", {-1, 1, 1.5, 9}), {0, 10, 0, 0}));
  EXPECT_TRUE(near(act_back("act bwd elu f32 nchw 3 coef=2", {3, 0, -std::log(4.f)}), {10, 10, 5}));
  EXPECT_TRUE(same(act_back("act bwd identity f32 nchw 2", {-3, 3}), {10, 10}));
  // swish with beta 2 at ln 2: s = 0.8, f' = s + 2 x s (1 - s).
  EXPECT_TRUE(near(act_back("act bwd swish f32 nchw 2 coef=2", {0, std::log(2.f)}), {5, 8 + 3.2f * std::log(2.f)}));
}

TEST(HostActivation, NanAndInfinity) {
  EXPECT_TRUE(same(act("act fwd relu f32 nchw 2", {kNan, kInfinity}), {0, kInfinity}));
  EXPECT_TRUE(same(act("act fwd relu f32 nchw 1 nan", {kNan}), {kNan}));
  EXPECT_TRUE(same(act("act fwd clipped_relu f32 nchw 2 coef=6", {kNan, kInfinity}), {0, 6}));
  EXPECT_TRUE(same(act("act fwd clipped_relu f32 nchw 1 coef=6 nan", {kNan}), {kNan}));
  EXPECT_TRUE(same(act("act fwd sigmoid f32 nchw 3", {-kInfinity, kInfinity, kNan}), {0, 1, kNan}));
  EXPECT_TRUE(same(act("act fwd tanh f32 nchw 3", {-kInfinity, kInfinity, kNan}), {-1, 1, kNan}));
  EXPECT_TRUE(same(act("act fwd elu f32 nchw 3 coef=2", {-kInfinity, kInfinity, kNan}), {-2, kInfinity, kNan}));
  EXPECT_TRUE(same(act("act fwd swish f32 nchw 3 coef=1", {-kInfinity, kInfinity, kNan}), {0, kInfinity, kNan}));
  EXPECT_TRUE(same(act_back("act bwd relu f32 nchw 1", {kNan}), {0}));
  EXPECT_TRUE(same(act_back("act bwd relu f32 nchw 1 nan", {kNan}), {kNan}));
  EXPECT_TRUE(same(act_back("act bwd swish f32 nchw 2 coef=1", {-kInfinity, kInfinity}), {0, 10}));
  const float most = std::numeric_limits<float>::max();
  EXPECT_TRUE(same(act_back("act bwd swish f32 nchw 2 coef=1", {-most, most}), {0, 10}));
}

TEST(HostActivation, UnusedInputsAreNotRead) {
  const auto problem = read(activation::from_text, "act bwd sigmoid f32 nchw 2");
  const Values y = {0.5, 0.25};
  const Values dy = {4, 16};
  Values dx(2, kNan);
  host::activation(problem, {.alpha = 2, .x = nullptr, .y = y.data(), .dy = dy.data(), .out = dx.data()});
  EXPECT_TRUE(same(dx, {2, 6}));
}

// --- tensors -------------------------------------------------------------------------------------------------------

Values add(const std::string& line, const Values& a, Values c, double alpha = 1, double beta = 1) {
  host::tensor(read(tensor::from_text, line), {.alpha = alpha, .beta = beta, .a = a.data(), .c = c.data()});
  return c;
}

TEST(HostTensor, AddBroadcasts) {
  const Values c = {0, 1, 2, 3, 4, 5};
  EXPECT_TRUE(same(add("tensor add f32 nchw n1c2w3", {10, 20, 30, 40, 50, 60}, c), {10, 21, 32, 43, 54, 65}));
  EXPECT_TRUE(same(add("tensor add f32 nchw n1c2w3 a:n1c2w1", {10, 20}, c), {10, 11, 12, 23, 24, 25}));
  EXPECT_TRUE(same(add("tensor add f32 nchw n1c2w3 a:n1c1w3", {10, 20, 30}, c), {10, 21, 32, 13, 24, 35}));
  EXPECT_TRUE(same(add("tensor add f32 nchw n1c2w3 a:n1c1w1", {10}, c), {10, 11, 12, 13, 14, 15}));
  EXPECT_TRUE(same(add("tensor add f32 nhwc n1c2w3 a:n1c2w1", {10, 20}, c, 2, 3), {20, 43, 26, 49, 32, 55}));
  EXPECT_TRUE(same(add("tensor add f32 nchw n1c2w3 a:n1c2w1", {1, 2}, Values(6, kNan), 1, 0), {1, 1, 1, 2, 2, 2}));
}

TEST(HostTensor, TransformBetweenLayoutsAndTypes) {
  EXPECT_TRUE(same(add("tensor transform f32 nchw n1c2w3 a:nhwc", {0, 1, 2, 3, 4, 5}, Values(6, kNan), 1, 0),
                   {0, 2, 4, 1, 3, 5}));
  EXPECT_TRUE(same(add("tensor transform f32 nhwc n1c2w3", {0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1}, 10, 2),
                   {2, 12, 22, 32, 42, 52}));
  Half half[2] = {};
  const double wide[2] = {2049.0000001, 1e9};
  host::tensor(read(tensor::from_text, "tensor transform f16 nchw 2 atype=f64"), {.a = wide, .c = half});
  EXPECT_EQ(static_cast<float>(half[0]), 2050) << "one rounding: above the tie, so up";
  EXPECT_EQ(static_cast<float>(half[1]), kInfinity);
}

TEST(HostTensor, SetAndScaleLeaveGapsAlone) {
  Values c(7, -1);
  const float value = 3;
  host::tensor(read(tensor::from_text, "tensor set f32 strides=4,1 2x3"), {.c = c.data(), .value = &value});
  EXPECT_TRUE(same(c, {3, 3, 3, -1, 3, 3, 3}));
  host::tensor(read(tensor::from_text, "tensor scale f32 strides=4,1 2x3"), {.alpha = 0.5, .c = c.data()});
  EXPECT_TRUE(same(c, {1.5, 1.5, 1.5, -1, 1.5, 1.5, 1.5}));
}

TEST(HostTensor, SetTakesEveryWidth) {
  for (const char* type : {"i8", "f16", "i32", "i64", "c128", "i8x4", "i8x32"}) {
    const auto problem = read(tensor::from_text, std::string("tensor set ") + type + " nchw 3");
    const auto size = static_cast<std::size_t>(data_type_bits(problem.c.type)) / 8;
    std::vector<unsigned char> value(size);
    for (std::size_t i = 0; i < size; ++i) value[i] = static_cast<unsigned char>(i + 1);
    std::vector<unsigned char> c(3 * size + 1, 0xee);
    host::tensor(problem, {.c = c.data(), .value = value.data()});
    for (std::size_t i = 0; i < 3 * size; ++i) ASSERT_EQ(c[i], i % size + 1) << type;
    EXPECT_EQ(c.back(), 0xee) << type;
  }
}

}  // namespace
}  // namespace gpudnn
