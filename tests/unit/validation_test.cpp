// What the operations refuse, with which status, and that the text says what would be legal.
// SPDX-License-Identifier: Apache-2.0
#include "core/validation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/activation/problem.hpp"
#include "ops/bias_grad/problem.hpp"
#include "ops/pooling/problem.hpp"
#include "ops/softmax/problem.hpp"
#include "ops/tensor/problem.hpp"

namespace gpudnn {
namespace {

TensorGeometry tensor_of(std::vector<std::int64_t> dims, DataType type = GPUDNN_DATA_FLOAT) {
  return packed_tensor(type, GPUDNN_TENSOR_NCHW, static_cast<int>(dims.size()), dims.data());
}

// The status, and a text that holds every one of the parts.
void expect_refusal(Status actual, Status expected, std::vector<std::string> parts) {
  EXPECT_STREQ(status_name(actual), status_name(expected)) << last_error_text();
  for (const std::string& part : parts) {
    EXPECT_NE(std::string(last_error_text()).find(part), std::string::npos) << part << " in: " << last_error_text();
  }
  clear_last_error();
}

void expect_accepted(Status actual) { EXPECT_EQ(actual, GPUDNN_STATUS_SUCCESS) << last_error_text(); }

TEST(Validation, SharedChecks) {
  const TensorGeometry x = tensor_of({2, 3, 4, 5});
  expect_accepted(require_floating(x, "xDesc"));
  expect_refusal(require_floating(TensorGeometry{}, "xDesc"), GPUDNN_STATUS_BAD_PARAM, {"xDesc", "never set"});
  expect_refusal(require_floating(tensor_of({2}, GPUDNN_DATA_INT8), "xDesc"), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 {"xDesc", "i8", "bf16"});
  expect_refusal(require_floating(tensor_of({2}, static_cast<DataType>(77)), "xDesc"), GPUDNN_STATUS_BAD_PARAM, {"77"});
  TensorGeometry negative = x;
  negative.strides[2] = -1;
  expect_refusal(require_described(negative, "xDesc"), GPUDNN_STATUS_BAD_PARAM, {"stride 2 is -1"});

  expect_accepted(require_same_dims(x, "xDesc", x, "yDesc"));
  expect_refusal(require_same_dims(tensor_of({2, 3, 4, 5}), "xDesc", tensor_of({2, 3, 4, 4}), "yDesc"),
                 GPUDNN_STATUS_BAD_PARAM, {"yDesc dims n2c3h4w4 differ from xDesc dims n2c3h4w5; they must be equal"});
  expect_refusal(require_same_dims(x, "xDesc", tensor_of({2, 3, 20}), "yDesc"), GPUDNN_STATUS_BAD_PARAM, {"n2c3w20"});
  expect_refusal(require_same_type(x, "xDesc", tensor_of({2}, GPUDNN_DATA_HALF), "yDesc"), GPUDNN_STATUS_BAD_PARAM,
                 {"f16", "f32"});
  expect_refusal(require_rank(x, "xDesc", 5, 6), GPUDNN_STATUS_BAD_PARAM, {"4 dims", "5 to 6"});
  TensorGeometry overlapping = x;
  overlapping.strides[0] = 0;
  expect_refusal(require_no_overlap(overlapping, "yDesc"), GPUDNN_STATUS_BAD_PARAM,
                 {"share addresses", "strides=0,20"});
  expect_accepted(require_enum(2, 0, 2, "mode", "gpudnnMode_t"));
  expect_refusal(require_enum(3, 0, 2, "mode", "gpudnnMode_t"), GPUDNN_STATUS_BAD_PARAM, {"mode is 3", "0 to 2"});
  expect_refusal(require_enum(-1, 0, 2, "mode", "gpudnnMode_t"), GPUDNN_STATUS_BAD_PARAM, {"mode is -1"});
}

pooling::Problem legal_pooling(bool backward) {
  std::string why;
  return *pooling::from_text(
      std::string("pool ") + (backward ? "bwd" : "fwd") + " max f32 nchw n2c3h8w9 r3s2 p1x0 t2x2", &why);
}

TEST(Validation, Pooling) {
  expect_accepted(pooling::validate(legal_pooling(false)));
  expect_accepted(pooling::validate(legal_pooling(true)));
  const auto refused = [](bool backward, auto change, Status status, std::vector<std::string> parts) {
    pooling::Problem problem = legal_pooling(backward);
    change(&problem);
    expect_refusal(pooling::validate(problem), status, parts);
  };
  const Status bad = GPUDNN_STATUS_BAD_PARAM;
  using P = pooling::Problem;
  refused(false, [](P* p) { p->mode = static_cast<gpudnnPoolingMode_t>(4); }, bad, {"mode is 4"});
  refused(false, [](P* p) { p->nan = static_cast<gpudnnNanPropagation_t>(2); }, bad, {"maxpoolingNanOpt is 2"});
  refused(false, [](P* p) { p->spatial = 0; }, bad, {"0 spatial"});
  refused(false, [](P* p) { p->spatial = 4; }, GPUDNN_STATUS_NOT_SUPPORTED, {"4 spatial", "1 to 3"});
  refused(false,
          [](P* p) {
            p->spatial = 3;
            p->window[2] = p->stride[2] = 1;
          },
          bad, {"xDesc", "there must be 5"});
  refused(false, [](P* p) { p->window[1] = 0; }, bad, {"window 1 is 0"});
  refused(false, [](P* p) { p->stride[0] = -1; }, bad, {"stride 0 is -1"});
  refused(false, [](P* p) { p->pad[0] = -1; }, bad, {"padding 0 is -1"});
  refused(false, [](P* p) { p->x.type = GPUDNN_DATA_INT8; }, GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, {"i8"});
  refused(false, [](P* p) { p->y.type = GPUDNN_DATA_HALF; }, bad, {"yDesc data type f16"});
  refused(false, [](P* p) { p->y = {}; }, bad, {"yDesc", "never set"});
  refused(false, [](P* p) { p->y = tensor_of({2, 3, 4}); }, bad, {"yDesc dims", "3", "as many"});
  refused(false, [](P* p) { p->y.dims[0] = 1; }, bad, {"batch"});
  refused(false, [](P* p) { p->y.dims[1] = 4; }, bad, {"channels"});
  refused(false, [](P* p) { p->y.strides[1] = 0; }, bad, {"yDesc", "share addresses"});
  refused(true, [](P* p) { p->dy.dims[2] = 3; }, bad, {"dyDesc dims", "yDesc dims"});
  refused(true, [](P* p) { p->dx.dims[2] = 7; }, bad, {"dxDesc dims", "xDesc dims"});
  refused(true, [](P* p) { p->dx.type = GPUDNN_DATA_DOUBLE; }, bad, {"dxDesc data type f64"});
  refused(true, [](P* p) { p->dx.strides[3] = 0; }, bad, {"dxDesc", "share addresses"});
  // Any extents of y are legal, also of windows that do not fit into the image.
  for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{2, 3, 4, 5}, {2, 3, 1, 1}, {2, 3, 40, 2}}) {
    pooling::Problem problem = legal_pooling(false);
    problem.y = tensor_of(dims);
    expect_accepted(pooling::validate(problem));
    problem.window[0] = 11;
    expect_accepted(pooling::validate(problem));
  }
  // Inputs may overlap themselves, and padding may exceed the window.
  pooling::Problem broadcast = legal_pooling(true);
  broadcast.x.strides[0] = broadcast.dy.strides[1] = broadcast.y.strides[1] = 0;
  expect_accepted(pooling::validate(broadcast));
  std::string why;
  expect_accepted(pooling::validate(*pooling::from_text("pool fwd avg f32 nchw n1c1w2 s2 p5 t1", &why)));
}

TEST(Validation, Activation) {
  std::string why;
  const auto forward = *activation::from_text("act fwd relu f32 nchw n2c3h4w5", &why);
  const auto backward = *activation::from_text("act bwd identity f32 nchw n2c3h4w5", &why);
  expect_accepted(activation::validate(forward));
  expect_accepted(activation::validate(backward));
  auto problem = forward;
  problem.mode = static_cast<gpudnnActivationMode_t>(7);
  expect_refusal(activation::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"mode is 7"});
  problem = forward;
  problem.nan = static_cast<gpudnnNanPropagation_t>(-1);
  expect_refusal(activation::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"reluNanOpt is -1"});
  problem = forward;
  problem.y = tensor_of({2, 3, 4, 6});
  expect_refusal(activation::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"yDesc dims n2c3h4w6", "n2c3h4w5"});
  problem = backward;
  problem.dy.type = GPUDNN_DATA_HALF;
  expect_refusal(activation::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"dyDesc data type f16"});
  problem = backward;
  problem.dx.strides[0] = 1;
  expect_refusal(activation::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"dxDesc", "share addresses"});
  problem = forward;
  problem.x.type = problem.y.type = GPUDNN_DATA_INT32;
  expect_refusal(activation::validate(problem), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, {"xDesc", "i32"});
}

TEST(Validation, Softmax) {
  std::string why;
  const auto forward = *softmax::from_text("softmax fwd fast channel f32 nchw n2c3h4w5", &why);
  const auto backward = *softmax::from_text("softmax bwd log instance f32 nchw n2c3h4w5", &why);
  expect_accepted(softmax::validate(forward));
  expect_accepted(softmax::validate(backward));
  auto problem = forward;
  problem.algorithm = static_cast<gpudnnSoftmaxAlgorithm_t>(3);
  expect_refusal(softmax::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"algo is 3"});
  problem = forward;
  problem.mode = static_cast<gpudnnSoftmaxMode_t>(2);
  expect_refusal(softmax::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"mode is 2"});
  problem = forward;
  problem.x = tensor_of({2, 3, 5, 4});
  expect_refusal(softmax::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"xDesc dims n2c3h5w4"});
  problem = forward;
  problem.x = problem.y = tensor_of({5});
  expect_refusal(softmax::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"yDesc", "2 to 8"});
  problem = forward;
  problem.x.type = problem.y.type = GPUDNN_DATA_INT8;
  expect_refusal(softmax::validate(problem), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, {"i8"});
  problem = backward;
  problem.dx = tensor_of({2, 3, 4});
  expect_refusal(softmax::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"dxDesc dims n2c3w4"});
}

TEST(Validation, TensorOperations) {
  std::string why;
  const auto line = [&](const char* text) { return *tensor::from_text(text, &why); };
  for (const char* text : {"tensor set i8x32 nchw 3", "tensor set c128 nchw n2c3h4w5", "tensor scale f16 nhwc n2c3h4w5",
                           "tensor add f32 nchw n2c3h4w5 a:n1c3h1w1", "tensor transform f32 nchw n2c3h4w5 atype=f64"}) {
    expect_accepted(tensor::validate(line(text)));
  }
  const Status type = GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  expect_refusal(tensor::validate(line("tensor set i4 nchw 8")), type, {"yDesc", "i4", "whole bytes"});
  expect_refusal(tensor::validate(line("tensor scale i32 nchw 8")), type, {"yDesc", "i32"});
  expect_refusal(tensor::validate(line("tensor add i32 nchw 8")), type, {"aDesc", "i32"});
  expect_refusal(tensor::validate(line("tensor transform f32 nchw 8 atype=i8")), type, {"xDesc", "i8"});
  const Status bad = GPUDNN_STATUS_BAD_PARAM;
  expect_refusal(tensor::validate(line("tensor add f32 nchw n2c3h4w5 a:n1c2h1w1")), bad,
                 {"aDesc dim 1 is 2", "n1c2h1w1", "1 or 3"});
  expect_refusal(tensor::validate(line("tensor add f32 nchw n2c3h4w5 a:n1c3w1")), bad, {"aDesc", "as many"});
  expect_refusal(tensor::validate(line("tensor add f32 nchw n2c3h4w5 atype=f16")), bad, {"aDesc data type f16"});
  expect_refusal(tensor::validate(line("tensor set f32 strides=0,1 2x3")), bad, {"yDesc", "share addresses"});
  expect_accepted(tensor::validate(line("tensor add f32 nchw 2x3 a:strides=0,1")));
  tensor::Problem unset;
  expect_refusal(tensor::validate(unset), bad, {"yDesc", "never set"});
}

TEST(Validation, BiasGradient) {
  std::string why;
  const auto legal = *bias_grad::from_text("biasgrad f32 nchw n2c3h4w5", &why);
  expect_accepted(bias_grad::validate(legal));
  auto problem = legal;
  problem.db = tensor_of({1, 4, 1, 1});
  expect_refusal(bias_grad::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"dbDesc dims n1c4h1w1", "n1c3h1w1"});
  problem = legal;
  problem.db.type = GPUDNN_DATA_HALF;
  expect_refusal(bias_grad::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"dbDesc data type f16"});
  problem = legal;
  problem.db.strides[1] = 0;
  expect_refusal(bias_grad::validate(problem), GPUDNN_STATUS_BAD_PARAM, {"dbDesc", "share addresses"});
}

}  // namespace
}  // namespace gpudnn
