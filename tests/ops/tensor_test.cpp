// Tensor descriptors and the operations on whole tensors, through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "support/by_hand.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

TensorCase tensor_case(const char* line) { return case_of(parsed(line, tensor::from_text)); }

void expect_literal(const TensorCase& c, const Values& values, const std::vector<double>& literal) {
  const Outcome outcome = run(Backend::at_hand(), c, values);
  ASSERT_EQ(outcome.status, GPUDNN_STATUS_SUCCESS) << outcome.text;
  EXPECT_EQ(outcome.values, literal);
  EXPECT_EQ(outcome.damage, "");
  std::vector<double> oracle = naive(c, values).value;
  for (double& value : oracle) value = round_to_type(value, c.problem.c.type);
  EXPECT_EQ(oracle, literal) << "the oracle is wrong";
}

TEST(Tensor, AddRepeatsAlongExtentsOfOneByHand) {
  Values values;
  values.x = {10, 20};
  values.out = {1, 2, 3, 4};
  TensorCase c = tensor_case("tensor add f32 nchw n1c2h1w2 a:n1c2h1w1");
  c.alpha = 2;
  c.beta = 1;
  expect_literal(c, values, {21, 22, 43, 44});
  c = tensor_case("tensor add f32 nchw n1c2h1w2 a:n1c1h1w2");
  c.alpha = 2;
  c.beta = 1;
  expect_literal(c, values, {21, 42, 23, 44});
}

TEST(Tensor, ScaleAndSetByHand) {
  Values values;
  values.out = {1, -2, 4};
  TensorCase c = tensor_case("tensor scale bf16 nchw n1c3h1w1");
  c.alpha = -0.5;
  expect_literal(c, values, {-0.5, 1, -2});
  c = tensor_case("tensor set f16 nchw n1c3h1w1");
  c.value = 1.5;
  expect_literal(c, {}, {1.5, 1.5, 1.5});
}

TEST(Tensor, TransformMovesBetweenLayouts) {
  const Backend& backend = Backend::at_hand();
  const TensorDescriptor nchw(GPUDNN_DATA_FLOAT, 1, 2, 1, 3);
  const TensorDescriptor nhwc(GPUDNN_DATA_FLOAT, 1, 2, 1, 3, GPUDNN_TENSOR_NHWC);
  TensorGeometry flat;
  flat.rank = 1;
  flat.dims[0] = 6;
  flat.strides[0] = 1;
  const std::vector<double> input = {1, 2, 3, 4, 5, 6};
  const DeviceTensor from(backend, flat, &input);
  const DeviceTensor to(backend, flat, nullptr);
  ASSERT_EQ(gpudnnTransformTensor(backend.handle(), Scalar(1, GPUDNN_DATA_FLOAT), nchw, from.data(),
                                  Scalar(0, GPUDNN_DATA_FLOAT), nhwc, to.data()),
            GPUDNN_STATUS_SUCCESS)
      << take_error_text();
  EXPECT_EQ(to.values(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(Tensor, RandomProblems) {
  sweep(600, random_tensor,
        [](const TensorCase& c, int i) { return check(Backend::at_hand(), c, {.misaligned = i % 5 == 4}); });
}

TEST(Tensor, HandPickedProblems) {
  std::vector<TensorCase> cases = cases_from_file<tensor::Problem>("tensor/edges.txt", tensor::from_text);
  for (TensorCase& c : cases) c.value = 2.5;
  check_all(cases);
}

// Rounding to every type: ties go to even, overflow to infinity, small numbers to subnormal ones.
TEST(Tensor, TransformRoundsBetweenTypesOnceToNearestEven) {
  Values values;
  values.x = {1 + 0x1p-11, 1 + 3 * 0x1p-11, 1 + 0x1p-11 + 0x1p-23, 65519, 65520, -1e6,
              0x1p-24,     0x1p-25,         3 * 0x1p-26,           0};
  TensorCase c = tensor_case("tensor transform f16 nchw n1c10h1w1 atype=f32");
  const double infinity = std::numeric_limits<double>::infinity();
  expect_literal(c, values, {1, 1 + 0x1p-9, 1 + 0x1p-10, 65504, infinity, -infinity, 0x1p-24, 0, 0x1p-24, 0});
}

TEST(Tensor, DescriptorsKeepWhatWasSet) {
  TensorDescriptor desc;
  ASSERT_EQ(gpudnnSetTensor4dDescriptor(desc, GPUDNN_TENSOR_NHWC, GPUDNN_DATA_HALF, 2, 3, 4, 5), GPUDNN_STATUS_SUCCESS);
  gpudnnDataType_t type;
  int d[4], s[4], count = 0;
  ASSERT_EQ(gpudnnGetTensor4dDescriptor(desc, &type, &d[0], &d[1], &d[2], &d[3], &s[0], &s[1], &s[2], &s[3]),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(type, GPUDNN_DATA_HALF);
  EXPECT_EQ(std::vector<int>(d, d + 4), (std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(std::vector<int>(s, s + 4), (std::vector<int>{60, 1, 15, 3}));
  ASSERT_EQ(gpudnnSetTensor4dDescriptor(desc, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 2, 3, 4, 5),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(gpudnnGetTensorNdDescriptor(desc, 4, &type, &count, d, s), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(std::vector<int>(s, s + 4), (std::vector<int>{60, 20, 5, 1}));
  ASSERT_EQ(gpudnnSetTensor4dDescriptorEx(desc, GPUDNN_DATA_DOUBLE, 2, 3, 4, 5, 1000, 200, 30, 4),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(gpudnnGetTensor4dDescriptor(desc, &type, &d[0], &d[1], &d[2], &d[3], &s[0], &s[1], &s[2], &s[3]),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(std::vector<int>(s, s + 4), (std::vector<int>{1000, 200, 30, 4}));
  std::size_t bytes = 0;
  ASSERT_EQ(gpudnnGetTensorSizeInBytes(desc, &bytes), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(bytes, 8u * (1000 + 400 + 90 + 16 + 1));
}

TEST(Tensor, DescriptorsOfOtherRanksKeepWhatWasSet) {
  TensorDescriptor desc;
  const int dims[] = {2, 3, 4, 5, 6};
  ASSERT_EQ(gpudnnSetTensorNdDescriptorEx(desc, GPUDNN_TENSOR_NHWC, GPUDNN_DATA_BFLOAT16, 5, dims),
            GPUDNN_STATUS_SUCCESS);
  gpudnnDataType_t type;
  int d[8], s[8], count = 0;
  ASSERT_EQ(gpudnnGetTensorNdDescriptor(desc, 8, &type, &count, d, s), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 5);
  EXPECT_EQ(std::vector<int>(d, d + 5), std::vector<int>(dims, dims + 5));
  EXPECT_EQ(std::vector<int>(s, s + 5), (std::vector<int>{360, 1, 90, 18, 3}));
  // Fewer than there are: the rest of the arrays stays untouched.
  d[2] = s[2] = -7;
  ASSERT_EQ(gpudnnGetTensorNdDescriptor(desc, 2, &type, &count, d, s), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 5);
  EXPECT_EQ(d[2], -7);
  EXPECT_EQ(s[2], -7);
  // Four dimensions were asked of five.
  EXPECT_EQ(gpudnnGetTensor4dDescriptor(desc, &type, &d[0], &d[1], &d[2], &d[3], &s[0], &s[1], &s[2], &s[3]),
            GPUDNN_STATUS_BAD_PARAM);
  (void)take_error_text();
}

TEST(Tensor, FilterDescriptorsKeepWhatWasSet) {
  FilterDescriptor desc;
  ASSERT_EQ(gpudnnSetFilter4dDescriptor(desc, GPUDNN_DATA_HALF, GPUDNN_TENSOR_NHWC, 8, 3, 5, 7), GPUDNN_STATUS_SUCCESS);
  gpudnnDataType_t type;
  gpudnnTensorFormat_t format;
  int d[8], count = 0;
  ASSERT_EQ(gpudnnGetFilter4dDescriptor(desc, &type, &format, &d[0], &d[1], &d[2], &d[3]), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(type, GPUDNN_DATA_HALF);
  EXPECT_EQ(format, GPUDNN_TENSOR_NHWC);
  EXPECT_EQ(std::vector<int>(d, d + 4), (std::vector<int>{8, 3, 5, 7}));
  std::size_t bytes = 0;
  ASSERT_EQ(gpudnnGetFilterSizeInBytes(desc, &bytes), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(bytes, 2u * 8 * 3 * 5 * 7);
  const int dims[] = {8, 3, 2, 5, 7};
  ASSERT_EQ(gpudnnSetFilterNdDescriptor(desc, GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 5, dims), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(gpudnnGetFilterNdDescriptor(desc, 8, &type, &format, &count, d), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 5);
  EXPECT_EQ(format, GPUDNN_TENSOR_NCHW);
  EXPECT_EQ(std::vector<int>(d, d + 5), std::vector<int>(dims, dims + 5));
}

}  // namespace
}  // namespace gpudnn::test
