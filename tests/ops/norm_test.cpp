// Batch normalization through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include "support/norm.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

// Two channels, two images of two pixels: channel 0 is 1, 3, 5, 7 with mean 4 and variance 5, channel 1 is constant.
TEST(BatchNorm, ForwardByHand) {
  NormCase c = norm_case("bn train spatial f32 nchw n2c2h1w2 eps=4");
  c.factor = 0.5;
  NormValues v;
  v.x = {1, 3, 8, 8, 5, 7, 8, 8};
  v.scale = {3, 2};
  v.bias = {10, -1};
  v.mean = {2, 0};
  v.variance = {1, 1};
  const ForwardExpected e = naive_forward(c, v, false);
  const std::vector<double> y = {7, 9, -1, -1, 11, 13, -1, -1};  // sqrt(5 + 4) = 3
  EXPECT_EQ(e.y.value, y) << "the oracle is wrong";
  EXPECT_DOUBLE_EQ(e.running_mean.value[0], 3);
  EXPECT_DOUBLE_EQ(e.running_variance.value[0], 0.5 + 0.5 * 20 / 3);  // 5 * 4 / 3, unbiased
  const Backend& backend = Backend::at_hand();
  DeviceTensor x(backend, c.forward.x, &v.x), out(backend, c.forward.y, nullptr);
  DeviceTensor scale(backend, c.forward.params, &v.scale), bias(backend, c.forward.params, &v.bias);
  DeviceTensor mean(backend, c.forward.stats, &v.mean), variance(backend, c.forward.stats, &v.variance);
  DeviceTensor saved_mean(backend, c.forward.stats, nullptr), inverse(backend, c.forward.stats, nullptr);
  const TensorDescriptor data(c.forward.x), params(c.forward.params);
  const Scalar one(1, GPUDNN_DATA_FLOAT), zero(0, GPUDNN_DATA_FLOAT);
  ASSERT_EQ(gpudnnBatchNormalizationForwardTraining(backend.handle(), GPUDNN_BATCHNORM_SPATIAL, one, zero, data,
                                                    x.data(), data, out.data(), params, scale.data(), bias.data(), 0.5,
                                                    mean.data(), variance.data(), 4, saved_mean.data(), inverse.data()),
            GPUDNN_STATUS_SUCCESS)
      << take_error_text();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(out.values()[i], y[i], 1e-5) << i;
  EXPECT_NEAR(mean.values()[0], 3, 1e-6);
  EXPECT_NEAR(variance.values()[0], 0.5 + 10.0 / 3, 1e-6);
  EXPECT_EQ(saved_mean.values(), (std::vector<double>{4, 8}));
  EXPECT_NEAR(inverse.values()[0], 1.0 / 3, 1e-7);
  EXPECT_EQ(inverse.values()[1], 0.5);
}

// x = 1, 3 with epsilon 3: mean 2, variance 1, 1 / sqrt(4) = 1/2; xhat = -1/2, 1/2; dy = 4, 8.
// dbias = 12, dscale = 2; dx = scale / 2 * (dy - 6 - xhat * 1) = (-1.5, 1.5) for scale 2.
TEST(BatchNorm, BackwardByHand) {
  NormCase c = norm_case("bn train activation f64 nchw n2c1h1w1 eps=3");
  NormValues v;
  v.x = {1, 3};
  v.dy = {4, 8};
  v.scale = {2};
  const BackwardExpected e = naive_backward(c, v, {1, 1}, {}, {});
  EXPECT_EQ(e.dx.value, (std::vector<double>{-1.5, 1.5})) << "the oracle is wrong";
  EXPECT_EQ(e.dscale.value[0], 2);
  EXPECT_EQ(e.dbias.value[0], 12);
  const Backend& backend = Backend::at_hand();
  DeviceTensor x(backend, c.forward.x, &v.x), dy(backend, c.forward.x, &v.dy),
      scale(backend, c.forward.params, &v.scale);
  DeviceTensor dscale(backend, c.forward.params, nullptr), dbias(backend, c.forward.params, nullptr);
  const TensorDescriptor data(c.forward.x), params(c.forward.params);
  const Scalar one(1, GPUDNN_DATA_DOUBLE), zero(0, GPUDNN_DATA_DOUBLE);
  // In place of dy.
  ASSERT_EQ(gpudnnBatchNormalizationBackward(backend.handle(), GPUDNN_BATCHNORM_PER_ACTIVATION, one, zero, one, zero,
                                             data, x.data(), data, dy.data(), data, dy.data(), params, scale.data(),
                                             dscale.data(), dbias.data(), 3, nullptr, nullptr),
            GPUDNN_STATUS_SUCCESS)
      << take_error_text();
  EXPECT_EQ(dy.values(), (std::vector<double>{-1.5, 1.5}));
  EXPECT_EQ(dscale.values()[0], 2);
  EXPECT_EQ(dbias.values()[0], 12);
}

TEST(BatchNorm, RandomProblems) {
  sweep(400, random_norm, [](const NormCase& c, int) { return check(Backend::at_hand(), c); });
}

TEST(BatchNorm, HandPickedProblems) {
  const std::vector<std::string> lines = case_lines("norm/edges.txt");
  EXPECT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    for (int variant = 0; variant < 4; ++variant) {
      NormCase c = norm_case(line);
      c.plain = variant % 2 == 1;
      c.without_workspace = variant == 2;
      c.misaligned = variant == 3;
      c.beta = variant == 2 ? 0.5 : 0;
      EXPECT_EQ(check(Backend::at_hand(), c), "") << describe(c);
    }
  }
}

// A mean of 10,000 deviations: the difference of mean square and squared mean would have no digit left in float.
TEST(BatchNorm, MeanFarAboveTheDeviation) {
  for (const char* line : {"bn train spatial f32 nchw n8c3h20w20", "bn train spatial f32 nhwc n8c16h20w20",
                           "bn train activation f32 nchw n1000c4h1w2"}) {
    NormCase c = norm_case(line);
    c.mean = 10000;
    EXPECT_EQ(check(Backend::at_hand(), c), "") << describe(c);
  }
}

// More images than a grid dimension has blocks.
TEST(BatchNorm, ManyImages) {
  for (const char* line : {"bn train spatial f16 nchw n200000c3h1w1", "bn train activation f32 nchw n200000c2h1w1",
                           "bn train spatial f32 nchw n70000c2h1w3"}) {
    EXPECT_EQ(check(Backend::at_hand(), norm_case(line)), "") << line;
  }
}

// x == y forward, and dx == dy with dz apart; the results are those of the call that is not in place.
TEST(BatchNorm, InPlaceForward) {
  const Backend& backend = Backend::at_hand();
  for (const char* line : {"bn train spatial f16 nchw n3c5h9w7", "bn train spatial f32 nhwc n3c16h9w8"}) {
    const NormCase c = norm_case(line);
    const NormValues v = make_values(c);
    DeviceTensor x(backend, c.forward.x, &v.x);
    DeviceTensor scale(backend, c.forward.params, &v.scale), bias(backend, c.forward.params, &v.bias);
    const TensorDescriptor data(c.forward.x), params(c.forward.params);
    ASSERT_EQ(gpudnnBatchNormalizationForwardTraining(backend.handle(), GPUDNN_BATCHNORM_SPATIAL_PERSISTENT,
                                                      Scalar(1, GPUDNN_DATA_FLOAT), Scalar(0, GPUDNN_DATA_FLOAT), data,
                                                      x.data(), data, x.data(), params, scale.data(), bias.data(), 1,
                                                      nullptr, nullptr, c.forward.epsilon, nullptr, nullptr),
              GPUDNN_STATUS_SUCCESS)
        << take_error_text();
    EXPECT_EQ(mismatch(c.forward.x, x.values(), naive_forward(c, v, false).y), "") << line;
  }
}

TEST(BatchNorm, DerivedDescriptors) {
  const TensorDescriptor x(GPUDNN_DATA_HALF, 4, 6, 5, 3, GPUDNN_TENSOR_NHWC);
  const TensorDescriptor derived, second;
  gpudnnDataType_t type;
  int n, c, h, w, stride[4];
  const auto expect = [&](gpudnnTensorDescriptor_t desc, int its_h, int its_w) {
    ASSERT_EQ(gpudnnGetTensor4dDescriptor(desc, &type, &n, &c, &h, &w, stride, stride + 1, stride + 2, stride + 3),
              GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(type, GPUDNN_DATA_FLOAT);
    EXPECT_EQ((std::vector<int>{n, c, h, w}), (std::vector<int>{1, 6, its_h, its_w}));
  };
  ASSERT_EQ(gpudnnDeriveBNTensorDescriptor(derived, x, GPUDNN_BATCHNORM_SPATIAL), GPUDNN_STATUS_SUCCESS);
  expect(derived, 1, 1);
  ASSERT_EQ(gpudnnDeriveBNTensorDescriptor(derived, x, GPUDNN_BATCHNORM_PER_ACTIVATION), GPUDNN_STATUS_SUCCESS);
  expect(derived, 5, 3);
  ASSERT_EQ(gpudnnDeriveNormTensorDescriptor(derived, second, x, GPUDNN_NORM_PER_CHANNEL, 1), GPUDNN_STATUS_SUCCESS);
  expect(derived, 1, 1);
  expect(second, 1, 1);
  EXPECT_EQ(gpudnnDeriveNormTensorDescriptor(derived, second, x, GPUDNN_NORM_PER_CHANNEL, 2), GPUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace gpudnn::test
