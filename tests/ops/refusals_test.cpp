// What is refused, with which status, and that the text names the argument. A refused call leaves its output alone.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

// The status, and a text that says the function and each of `words`.
void expect_refused(gpudnnStatus_t status, gpudnnStatus_t expected, std::initializer_list<const char*> words) {
  const std::string text = take_error_text();
  EXPECT_EQ(GPUDNN_STATUS_CATEGORY(status), GPUDNN_STATUS_CATEGORY(expected)) << text;
  EXPECT_NE(text, "");
  for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
}

TEST(Refusals, TensorDescriptors) {
  TensorDescriptor desc;
  const auto set = [&](int n, int c, int h, int w) {
    return gpudnnSetTensor4dDescriptor(desc, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, n, c, h, w);
  };
  expect_refused(set(1, -2, 3, 4), GPUDNN_STATUS_BAD_PARAM, {"gpudnnSetTensor4dDescriptor", "-2"});
  expect_refused(gpudnnSetTensor4dDescriptor(desc, static_cast<gpudnnTensorFormat_t>(9), GPUDNN_DATA_FLOAT, 1, 1, 1, 1),
                 GPUDNN_STATUS_BAD_PARAM, {"format"});
  expect_refused(gpudnnSetTensor4dDescriptor(desc, GPUDNN_TENSOR_NCHW, static_cast<gpudnnDataType_t>(99), 1, 1, 1, 1),
                 GPUDNN_STATUS_BAD_PARAM, {"dataType"});
  expect_refused(gpudnnSetTensor4dDescriptorEx(desc, GPUDNN_DATA_FLOAT, 1, 1, 2, 2, 4, 4, 2, -1),
                 GPUDNN_STATUS_BAD_PARAM, {"stride", "-1"});
  const int dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  expect_refused(gpudnnSetTensorNdDescriptor(desc, GPUDNN_DATA_FLOAT, 9, dims, dims), GPUDNN_STATUS_NOT_SUPPORTED,
                 {"nbDims", "9"});
  expect_refused(gpudnnSetTensorNdDescriptor(desc, GPUDNN_DATA_FLOAT, 4, dims, nullptr), GPUDNN_STATUS_BAD_PARAM,
                 {"strideA"});
}

TEST(Refusals, ConvolutionDescriptors) {
  ConvolutionDescriptor desc;
  const auto set = [&](int pad, int stride, int dilation) {
    return gpudnnSetConvolution2dDescriptor(desc, pad, 0, stride, 1, dilation, 1, GPUDNN_CROSS_CORRELATION,
                                            GPUDNN_DATA_FLOAT);
  };
  expect_refused(set(-1, 1, 1), GPUDNN_STATUS_BAD_PARAM, {"pad", "-1"});
  expect_refused(set(0, 0, 1), GPUDNN_STATUS_BAD_PARAM, {"stride", "0"});
  expect_refused(set(0, 1, 0), GPUDNN_STATUS_BAD_PARAM, {"dilation", "0"});
  expect_refused(gpudnnSetConvolutionGroupCount(desc, 0), GPUDNN_STATUS_BAD_PARAM, {"group", "0"});
  expect_refused(gpudnnSetConvolutionMathType(desc, static_cast<gpudnnMathType_t>(7)), GPUDNN_STATUS_BAD_PARAM,
                 {"mathType", "7"});
}

TEST(Refusals, ExtentsWhoseBytesOverflow) {
  const int most = 2147483647;
  const int dims[] = {most, most, 8, 1};
  const TensorDescriptor tensor;
  expect_refused(gpudnnSetTensorNdDescriptorEx(tensor, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 4, dims),
                 GPUDNN_STATUS_NOT_SUPPORTED, {"dimension 1", "2147483647", "bytes"});
  expect_refused(gpudnnSetTensor4dDescriptor(tensor, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_HALF, most, 65536, 65536, 1),
                 GPUDNN_STATUS_NOT_SUPPORTED, {"dimension 2", "65536", "bytes"});
}

TEST(Refusals, NumbersOfDimensions) {
  const int ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const TensorDescriptor tensor;
  PoolingDescriptor pool;
  const auto set_tensor = [&](int rank) {
    return gpudnnSetTensorNdDescriptor(tensor, GPUDNN_DATA_FLOAT, rank, ones, ones);
  };
  const auto set_pooling = [&](int rank) {
    return gpudnnSetPoolingNdDescriptor(pool, GPUDNN_POOLING_MAX, GPUDNN_PROPAGATE_NAN, rank, ones, ones, ones);
  };
  expect_refused(set_tensor(0), GPUDNN_STATUS_BAD_PARAM, {"nbDims is 0"});
  expect_refused(set_tensor(9), GPUDNN_STATUS_NOT_SUPPORTED, {"nbDims is 9", "8"});
  expect_refused(set_pooling(0), GPUDNN_STATUS_BAD_PARAM, {"nbDims is 0"});
  expect_refused(set_pooling(7), GPUDNN_STATUS_NOT_SUPPORTED, {"nbDims is 7", "6"});
}

TEST(Refusals, PoolingAndActivationDescriptors) {
  PoolingDescriptor pool;
  const auto set = [&](int window, int pad, int stride) {
    return gpudnnSetPooling2dDescriptor(pool, GPUDNN_POOLING_MAX, GPUDNN_PROPAGATE_NAN, window, 2, pad, 0, stride, 1);
  };
  expect_refused(set(0, 0, 1), GPUDNN_STATUS_BAD_PARAM, {"window", "0"});
  expect_refused(set(2, -3, 1), GPUDNN_STATUS_BAD_PARAM, {"padding", "-3"});
  expect_refused(set(2, 0, 0), GPUDNN_STATUS_BAD_PARAM, {"stride", "0"});
  ActivationDescriptor activation;
  expect_refused(
      gpudnnSetActivationDescriptor(activation, static_cast<gpudnnActivationMode_t>(77), GPUDNN_PROPAGATE_NAN, 0),
      GPUDNN_STATUS_BAD_PARAM, {"mode", "77"});
}

// A valid convolution whose parts the tests replace, on memory that must stay as it is.
class ConvolutionRefusals : public testing::Test {
 protected:
  ConvolutionRefusals() : memory_(Backend::at_hand(), flat(), nullptr) {}

  static TensorGeometry flat() {
    TensorGeometry geometry;
    geometry.rank = 1;
    geometry.dims[0] = 4096;
    geometry.strides[0] = 1;
    return geometry;
  }
  gpudnnStatus_t forward(gpudnnTensorDescriptor_t x, gpudnnFilterDescriptor_t w,
                         gpudnnConvolutionDescriptor_t convolution, gpudnnTensorDescriptor_t y) {
    const Scalar one(1, GPUDNN_DATA_FLOAT);
    const Scalar zero(0, GPUDNN_DATA_FLOAT);
    return gpudnnConvolutionForward(Backend::at_hand().handle(), one, x, memory_.data(), w, memory_.data(), convolution,
                                    GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, zero, y, memory_.data());
  }
  ~ConvolutionRefusals() override { EXPECT_EQ(memory_.damage_anywhere(), "") << "a refused call wrote"; }

  DeviceTensor memory_;
  TensorDescriptor x_{GPUDNN_DATA_FLOAT, 2, 4, 5, 5};
  FilterDescriptor w_{GPUDNN_DATA_FLOAT, 6, 4, 3, 3};
  TensorDescriptor y_{GPUDNN_DATA_FLOAT, 2, 6, 3, 3};
  ConvolutionDescriptor convolution_{0, 1, 1};
};

TEST_F(ConvolutionRefusals, DescriptorsThatWereNeverSet) {
  TensorDescriptor tensor;
  FilterDescriptor filter;
  ConvolutionDescriptor convolution;
  expect_refused(forward(tensor, w_, convolution_, y_), GPUDNN_STATUS_BAD_PARAM, {"xDesc"});
  expect_refused(forward(x_, filter, convolution_, y_), GPUDNN_STATUS_BAD_PARAM, {"wDesc"});
  expect_refused(forward(x_, w_, convolution, y_), GPUDNN_STATUS_BAD_PARAM, {"convDesc"});
  expect_refused(forward(x_, w_, convolution_, tensor), GPUDNN_STATUS_BAD_PARAM, {"yDesc"});
}

TEST_F(ConvolutionRefusals, DimensionsThatDoNotBelongTogether) {
  const TensorDescriptor wide(GPUDNN_DATA_FLOAT, 2, 6, 3, 4);
  expect_refused(forward(x_, w_, convolution_, wide), GPUDNN_STATUS_BAD_PARAM, {"yDesc", "w4", "w3"});
  const TensorDescriptor batch(GPUDNN_DATA_FLOAT, 3, 6, 3, 3);
  expect_refused(forward(x_, w_, convolution_, batch), GPUDNN_STATUS_BAD_PARAM, {"yDesc"});
  const TensorDescriptor channels(GPUDNN_DATA_FLOAT, 2, 5, 5, 5);
  expect_refused(forward(channels, w_, convolution_, y_), GPUDNN_STATUS_BAD_PARAM, {"xDesc", "5 channels"});
  const FilterDescriptor large(GPUDNN_DATA_FLOAT, 6, 4, 7, 7);
  expect_refused(forward(x_, large, convolution_, y_), GPUDNN_STATUS_BAD_PARAM, {"wDesc", "7"});
}

TEST_F(ConvolutionRefusals, GroupsThatDoNotDivide) {
  ASSERT_EQ(gpudnnSetConvolutionGroupCount(convolution_, 2), GPUDNN_STATUS_SUCCESS);
  expect_refused(forward(x_, w_, convolution_, y_), GPUDNN_STATUS_BAD_PARAM, {"channels", "2 groups"});
  ASSERT_EQ(gpudnnSetConvolutionGroupCount(convolution_, 4), GPUDNN_STATUS_SUCCESS);
  const FilterDescriptor one_channel(GPUDNN_DATA_FLOAT, 6, 1, 3, 3);
  expect_refused(forward(x_, one_channel, convolution_, y_), GPUDNN_STATUS_BAD_PARAM, {"4 groups", "6"});
}

TEST_F(ConvolutionRefusals, TypesThatDoNotGoTogether) {
  const TensorDescriptor half(GPUDNN_DATA_HALF, 2, 6, 3, 3);
  expect_refused(forward(x_, w_, convolution_, half), GPUDNN_STATUS_NOT_SUPPORTED, {"yDesc", "f16"});
  const ConvolutionDescriptor integer(0, 1, 1, GPUDNN_DATA_INT32);
  expect_refused(forward(x_, w_, integer, y_), GPUDNN_STATUS_NOT_SUPPORTED, {"computeType", "i32"});
}

TEST_F(ConvolutionRefusals, OutputsWhoseElementsShareMemory) {
  TensorDescriptor y;
  ASSERT_EQ(gpudnnSetTensor4dDescriptorEx(y, GPUDNN_DATA_FLOAT, 2, 6, 3, 3, 54, 9, 2, 1), GPUDNN_STATUS_SUCCESS);
  expect_refused(forward(x_, w_, convolution_, y), GPUDNN_STATUS_BAD_PARAM, {"yDesc"});
  ASSERT_EQ(gpudnnSetTensor4dDescriptorEx(y, GPUDNN_DATA_FLOAT, 2, 6, 3, 3, 0, 9, 3, 1), GPUDNN_STATUS_SUCCESS);
  expect_refused(forward(x_, w_, convolution_, y), GPUDNN_STATUS_BAD_PARAM, {"yDesc"});
}

TEST_F(ConvolutionRefusals, NullPointers) {
  const Scalar one(1, GPUDNN_DATA_FLOAT);
  const Backend& backend = Backend::at_hand();
  const auto call = [&](const void* alpha, const void* x, const void* w, const void* beta, void* y) {
    return gpudnnConvolutionForward(backend.handle(), alpha, x_, x, w_, w, convolution_,
                                    GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, beta, y_, y);
  };
  void* const m = memory_.data();
  expect_refused(call(nullptr, m, m, one, m), GPUDNN_STATUS_BAD_PARAM, {"alpha"});
  expect_refused(call(one, nullptr, m, one, m), GPUDNN_STATUS_BAD_PARAM, {"x is null"});
  expect_refused(call(one, m, nullptr, one, m), GPUDNN_STATUS_BAD_PARAM, {"w is null"});
  expect_refused(call(one, m, m, nullptr, m), GPUDNN_STATUS_BAD_PARAM, {"beta"});
  expect_refused(call(one, m, m, one, nullptr), GPUDNN_STATUS_BAD_PARAM, {"y is null"});
}

TEST_F(ConvolutionRefusals, WorkspaceSizeWithoutWorkspace) {
  const Scalar one(1, GPUDNN_DATA_FLOAT);
  expect_refused(
      gpudnnConvolutionForward(Backend::at_hand().handle(), one, x_, memory_.data(), w_, memory_.data(), convolution_,
                               GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, nullptr, 64, one, y_, memory_.data()),
      GPUDNN_STATUS_BAD_PARAM, {"workSpace", "64"});
}

TEST_F(ConvolutionRefusals, BiasOfAnotherShape) {
  const TensorDescriptor bias(GPUDNN_DATA_FLOAT, 1, 5, 1, 1);
  const ActivationDescriptor relu(GPUDNN_ACTIVATION_RELU, GPUDNN_NOT_PROPAGATE_NAN, 0);
  const Scalar one(1, GPUDNN_DATA_FLOAT);
  void* const m = memory_.data();
  expect_refused(gpudnnConvolutionBiasActivationForward(Backend::at_hand().handle(), one, x_, m, w_, m, convolution_,
                                                        GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, one, y_,
                                                        m, bias, m, relu, y_, m),
                 GPUDNN_STATUS_BAD_PARAM, {"biasDesc"});
}

TEST_F(ConvolutionRefusals, OutputDimensionQueries) {
  int n, c, h, w;
  const TensorDescriptor channels(GPUDNN_DATA_FLOAT, 2, 5, 5, 5);
  expect_refused(gpudnnGetConvolution2dForwardOutputDim(convolution_, channels, w_, &n, &c, &h, &w),
                 GPUDNN_STATUS_BAD_PARAM, {"channels"});
  ASSERT_EQ(gpudnnGetConvolution2dForwardOutputDim(convolution_, x_, w_, &n, &c, &h, &w), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ((std::vector<int>{n, c, h, w}), (std::vector<int>{2, 6, 3, 3}));
  int dims[4];
  ASSERT_EQ(gpudnnGetConvolutionNdForwardOutputDim(convolution_, x_, w_, 4, dims), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(std::vector<int>(dims, dims + 4), (std::vector<int>{2, 6, 3, 3}));
}

TEST_F(ConvolutionRefusals, OtherOperationsWithTensorsThatDoNotMatch) {
  const Backend& backend = Backend::at_hand();
  const Scalar one(1, GPUDNN_DATA_FLOAT);
  void* const m = memory_.data();
  const ActivationDescriptor relu(GPUDNN_ACTIVATION_RELU, GPUDNN_NOT_PROPAGATE_NAN, 0);
  const TensorDescriptor half(GPUDNN_DATA_HALF, 2, 4, 5, 5);
  const TensorDescriptor row(GPUDNN_DATA_FLOAT, 1, 3, 1, 1);
  const TensorDescriptor integers(GPUDNN_DATA_INT32, 2, 4, 5, 5);
  const gpudnnHandle_t h = backend.handle();
  expect_refused(gpudnnActivationForward(h, relu, one, x_, m, one, y_, m), GPUDNN_STATUS_BAD_PARAM, {"yDesc", "xDesc"});
  expect_refused(gpudnnActivationForward(h, relu, one, x_, m, one, half, m), GPUDNN_STATUS_BAD_PARAM, {"yDesc", "f16"});
  expect_refused(gpudnnActivationForward(h, relu, one, integers, m, one, integers, m), GPUDNN_STATUS_NOT_SUPPORTED,
                 {"xDesc", "i32"});
  expect_refused(gpudnnSoftmaxForward(h, GPUDNN_SOFTMAX_ACCURATE, GPUDNN_SOFTMAX_MODE_CHANNEL, one, x_, m, one, y_, m),
                 GPUDNN_STATUS_BAD_PARAM, {"xDesc", "yDesc"});
  expect_refused(gpudnnSoftmaxForward(h, static_cast<gpudnnSoftmaxAlgorithm_t>(5), GPUDNN_SOFTMAX_MODE_CHANNEL, one, x_,
                                      m, one, x_, m),
                 GPUDNN_STATUS_BAD_PARAM, {"algo", "5"});
  expect_refused(gpudnnAddTensor(h, one, row, m, one, x_, m), GPUDNN_STATUS_BAD_PARAM, {"aDesc", "3"});
  expect_refused(gpudnnTransformTensor(h, one, x_, m, one, y_, m), GPUDNN_STATUS_BAD_PARAM, {"yDesc"});
  expect_refused(gpudnnConvolutionBackwardBias(h, one, x_, m, one, row, m), GPUDNN_STATUS_BAD_PARAM, {"dbDesc"});
  PoolingDescriptor pool;
  expect_refused(gpudnnPoolingForward(h, pool, one, x_, m, one, y_, m), GPUDNN_STATUS_BAD_PARAM, {"poolingDesc"});
  ASSERT_EQ(gpudnnSetPooling2dDescriptor(pool, GPUDNN_POOLING_MAX, GPUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2),
            GPUDNN_STATUS_SUCCESS);
  expect_refused(gpudnnPoolingForward(h, pool, one, x_, m, one, y_, m), GPUDNN_STATUS_BAD_PARAM, {"yDesc"});
}

TEST(ConvolutionDescriptors, KeepWhatWasSet) {
  ConvolutionDescriptor desc;
  ASSERT_EQ(gpudnnSetConvolution2dDescriptor(desc, 1, 2, 3, 4, 5, 6, GPUDNN_CONVOLUTION, GPUDNN_DATA_DOUBLE),
            GPUDNN_STATUS_SUCCESS);
  int v[6], count = 0;
  gpudnnConvolutionMode_t mode;
  gpudnnDataType_t type;
  ASSERT_EQ(gpudnnGetConvolution2dDescriptor(desc, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &mode, &type),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(std::vector<int>(v, v + 6), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(mode, GPUDNN_CONVOLUTION);
  EXPECT_EQ(type, GPUDNN_DATA_DOUBLE);
  const int pad[] = {0, 1, 2}, stride[] = {3, 2, 1}, dilation[] = {1, 2, 4};
  ASSERT_EQ(
      gpudnnSetConvolutionNdDescriptor(desc, 3, pad, stride, dilation, GPUDNN_CROSS_CORRELATION, GPUDNN_DATA_FLOAT),
      GPUDNN_STATUS_SUCCESS);
  int p[3], s[3], d[3];
  ASSERT_EQ(gpudnnGetConvolutionNdDescriptor(desc, 3, &count, p, s, d, &mode, &type), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(std::vector<int>(p, p + 3), std::vector<int>(pad, pad + 3));
  EXPECT_EQ(std::vector<int>(s, s + 3), std::vector<int>(stride, stride + 3));
  EXPECT_EQ(std::vector<int>(d, d + 3), std::vector<int>(dilation, dilation + 3));
  EXPECT_EQ(mode, GPUDNN_CROSS_CORRELATION);
  gpudnnMathType_t math;
  ASSERT_EQ(gpudnnSetConvolutionMathType(desc, GPUDNN_TENSOR_OP_MATH), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(gpudnnGetConvolutionMathType(desc, &math), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(math, GPUDNN_TENSOR_OP_MATH);
  ASSERT_EQ(gpudnnSetConvolutionGroupCount(desc, 12), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(gpudnnGetConvolutionGroupCount(desc, &count), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 12);
}

}  // namespace
}  // namespace gpudnn::test
