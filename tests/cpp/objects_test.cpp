// Owners and errors of gpudnn.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "gpudnn/gpudnn.hpp"

namespace {

TEST(CppObjects, AFailureThrowsTheLibrarysText) {
  gpudnn::TensorDescriptor tensor;
  try {
    tensor.set(GPUDNN_DATA_FLOAT, {1, 2, -3, 4});
    FAIL() << "nothing was thrown";
  } catch (const gpudnn::Error& error) {
    EXPECT_EQ(error.code(), GPUDNN_STATUS_BAD_PARAM);
    const std::string what = error.what();
    EXPECT_NE(what.find("GPUDNN_STATUS_BAD_PARAM: gpudnnSetTensorNdDescriptorEx: "), std::string::npos) << what;
    EXPECT_NE(what.find("-3"), std::string::npos) << what;
  }
}

TEST(CppObjects, AFailureIsAlsoAValue) {
  const gpudnn::Status status = gpudnn::status_of(gpudnnCreateTensorDescriptor(nullptr));
  EXPECT_FALSE(status);
  EXPECT_EQ(status.code(), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(status.text().find("tensorDesc is null"), std::string::npos) << status.text();
  EXPECT_TRUE(gpudnn::status_of(GPUDNN_STATUS_SUCCESS));
}

TEST(CppObjects, OwnersMoveAndMayBeEmpty) {
  gpudnn::TensorDescriptor a(GPUDNN_DATA_FLOAT, {2, 3});
  EXPECT_EQ(a.bytes(), 24u);
  gpudnnTensorDescriptor_t const inside = a;
  gpudnn::TensorDescriptor b = std::move(a);
  EXPECT_EQ(b.get(), inside);
  EXPECT_EQ(a.get(), nullptr);
  a = std::move(b);
  EXPECT_EQ(a.get(), inside);
  gpudnn::TensorDescriptor empty(nullptr);
  EXPECT_EQ(empty.get(), nullptr);
  EXPECT_TRUE(empty.try_create());
  EXPECT_NE(empty.get(), nullptr);
  gpudnn::TensorDescriptor strided;
  strided.set_strided(GPUDNN_DATA_HALF, {2, 3}, {8, 1});
  EXPECT_EQ(strided.bytes(), 22u);
  EXPECT_THROW(strided.set_strided(GPUDNN_DATA_HALF, {2, 3}, {1}), gpudnn::Error);
}

TEST(CppObjects, DescriptorsAreSetByOptions) {
  gpudnn::ConvolutionOptions options;
  options.padding = {1, 2};
  options.groups = 3;
  const gpudnn::ConvolutionDescriptor conv(2, options);
  int length = 0;
  int pad[2] = {};
  int stride[2] = {};
  int dilation[2] = {};
  int groups = 0;
  gpudnnConvolutionMode_t mode{};
  gpudnnDataType_t compute{};
  gpudnn::check(gpudnnGetConvolutionNdDescriptor(conv, 2, &length, pad, stride, dilation, &mode, &compute));
  gpudnn::check(gpudnnGetConvolutionGroupCount(conv, &groups));
  EXPECT_EQ(length, 2);
  EXPECT_EQ(pad[0], 1);
  EXPECT_EQ(pad[1], 2);
  EXPECT_EQ(stride[0], 1);
  EXPECT_EQ(dilation[1], 1);
  EXPECT_EQ(mode, GPUDNN_CROSS_CORRELATION);
  EXPECT_EQ(groups, 3);
  EXPECT_THROW(gpudnn::PoolingDescriptor(GPUDNN_POOLING_MAX, {2, 2}, {0}, {2, 2}), gpudnn::Error);
}

TEST(CppObjects, BuffersCopyThereAndBack) {
  const gpudnn::Handle handle;
  gpudnn::Buffer buffer(handle, std::vector<float>{1, 2, 3});
  EXPECT_EQ(buffer.bytes(), 12u);
  EXPECT_EQ(buffer.download<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_THROW(buffer.upload(std::vector<float>(4)), gpudnn::Error);
  gpudnn::Buffer other = std::move(buffer);
  EXPECT_EQ(buffer.get(), nullptr);
  EXPECT_EQ(other.bytes(), 12u);
  EXPECT_EQ(gpudnn::Buffer(handle, 0).get(), nullptr);
}

}  // namespace
