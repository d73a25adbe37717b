// One small call of every operation on tensors that stay where they are.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/every_operation.hpp"

#include <array>
#include <stdexcept>

#include "runtime/more_operations.hpp"
#include "runtime/sequence_operations.hpp"
#include "support/lrn.hpp"
#include "support/norm.hpp"

namespace gpudnn::test {
namespace {

template <class Problem, class Parse>
Case<Problem> case_of(const char* line, Parse parse) {
  std::string why;
  const auto problem = parse(line, &why);
  if (!problem) throw std::runtime_error(std::string(line) + ": " + why);
  Case<Problem> c{};
  c.problem = *problem;
  c.integers = false;
  return c;
}

using Shared = std::shared_ptr<DeviceTensor>;

Shared make(const Backend& backend, const TensorGeometry& geometry, const std::vector<double>& values) {
  return std::make_shared<DeviceTensor>(backend, geometry, values.empty() ? nullptr : &values);
}

PreparedCall convolution(const Backend& backend, const char* line) {
  const ConvCase c = case_of<conv::Problem>(line, conv::from_text);
  const Values v = make_values(c);
  const Shared x = make(backend, c.problem.x, v.x);
  const Shared w = make(backend, c.problem.w, v.w);
  const Shared y = make(backend, c.problem.y, v.y);
  const auto x_desc = std::make_shared<TensorDescriptor>(c.problem.x);
  const auto y_desc = std::make_shared<TensorDescriptor>(c.problem.y);
  const auto w_desc = std::make_shared<FilterDescriptor>(c.problem.w);
  const auto convolution = std::make_shared<ConvolutionDescriptor>(c.problem);
  std::size_t bytes = 0;
  GPUDNN_TEST_REQUIRE(workspace_size(backend, c.problem, 1, &bytes));
  const auto workspace = std::make_shared<GuardedBuffer>(backend, bytes);
  const conv::Direction direction = c.problem.direction;
  const Shared out = direction == conv::Direction::forward ? y : direction == conv::Direction::dgrad ? x : w;
  const gpudnnDataType_t type = c.problem.x.type;
  return {line,
          [=](gpudnnHandle_t h) {
            const Scalar one(1, type);
            const Scalar zero(0, type);
            switch (direction) {
              case conv::Direction::forward:
                return gpudnnConvolutionForward(h, one, *x_desc, x->data(), *w_desc, w->data(), *convolution,
                                                GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace->data(),
                                                bytes, zero, *y_desc, y->data());
              case conv::Direction::dgrad:
                return gpudnnConvolutionBackwardData(h, one, *w_desc, w->data(), *y_desc, y->data(), *convolution,
                                                     GPUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace->data(), bytes, zero,
                                                     *x_desc, x->data());
              default:
                return gpudnnConvolutionBackwardFilter(h, one, *x_desc, x->data(), *y_desc, y->data(), *convolution,
                                                       GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace->data(), bytes,
                                                       zero, *w_desc, w->data());
            }
          },
          out, naive(c, v)};
}

PreparedCall pool(const Backend& backend, const char* line) {
  const PoolingCase c = case_of<pooling::Problem>(line, pooling::from_text);
  const Values v = make_values(c);
  const pooling::Problem& p = c.problem;
  const auto pool = std::make_shared<PoolingDescriptor>(p);
  const auto x_desc = std::make_shared<TensorDescriptor>(p.x);
  const auto y_desc = std::make_shared<TensorDescriptor>(p.y);
  const Shared x = make(backend, p.x, v.x);
  const Shared y = make(backend, p.y, v.y);
  if (!p.backward) {
    return {line,
            [=](gpudnnHandle_t h) {
              return gpudnnPoolingForward(h, *pool, Scalar(1, GPUDNN_DATA_FLOAT), *x_desc, x->data(),
                                          Scalar(0, GPUDNN_DATA_FLOAT), *y_desc, y->data());
            },
            y, naive(c, v)};
  }
  const Shared dy = make(backend, p.dy, v.dy);
  const Shared dx = make(backend, p.dx, {});
  return {line,
          [=](gpudnnHandle_t h) {
            return gpudnnPoolingBackward(h, *pool, Scalar(1, GPUDNN_DATA_FLOAT), *y_desc, y->data(), *y_desc,
                                         dy->data(), *x_desc, x->data(), Scalar(0, GPUDNN_DATA_FLOAT), *x_desc,
                                         dx->data());
          },
          dx, naive(c, v)};
}

PreparedCall activate(const Backend& backend, const char* line) {
  const ActivationCase c = case_of<activation::Problem>(line, activation::from_text);
  const Values v = make_values(c);
  const activation::Problem& p = c.problem;
  const auto desc = std::make_shared<TensorDescriptor>(p.x);
  const auto activation = std::make_shared<ActivationDescriptor>(p.mode, p.nan, p.coef);
  const Shared x = make(backend, p.x, v.x);
  const Shared y = make(backend, p.y, v.y);
  if (!p.backward) {
    return {line,
            [=](gpudnnHandle_t h) {
              return gpudnnActivationForward(h, *activation, Scalar(1, GPUDNN_DATA_FLOAT), *desc, x->data(),
                                             Scalar(0, GPUDNN_DATA_FLOAT), *desc, y->data());
            },
            y, naive(c, v)};
  }
  const Shared dy = make(backend, p.dy, v.dy);
  const Shared dx = make(backend, p.dx, {});
  return {line,
          [=](gpudnnHandle_t h) {
            return gpudnnActivationBackward(h, *activation, Scalar(1, GPUDNN_DATA_FLOAT), *desc, y->data(), *desc,
                                            dy->data(), *desc, x->data(), Scalar(0, GPUDNN_DATA_FLOAT), *desc,
                                            dx->data());
          },
          dx, naive(c, v)};
}

PreparedCall soften(const Backend& backend, const char* line) {
  const SoftmaxCase c = case_of<softmax::Problem>(line, softmax::from_text);
  const Values v = make_values(c);
  const softmax::Problem p = c.problem;
  const auto desc = std::make_shared<TensorDescriptor>(p.y);
  const Shared y = make(backend, p.y, v.y);
  if (!p.backward) {
    const Shared x = make(backend, p.x, v.x);
    return {line,
            [=](gpudnnHandle_t h) {
              return gpudnnSoftmaxForward(h, p.algorithm, p.mode, Scalar(1, GPUDNN_DATA_FLOAT), *desc, x->data(),
                                          Scalar(0, GPUDNN_DATA_FLOAT), *desc, y->data());
            },
            y, naive(c, v)};
  }
  const Shared dy = make(backend, p.dy, v.dy);
  const Shared dx = make(backend, p.dx, {});
  return {line,
          [=](gpudnnHandle_t h) {
            return gpudnnSoftmaxBackward(h, p.algorithm, p.mode, Scalar(1, GPUDNN_DATA_FLOAT), *desc, y->data(), *desc,
                                         dy->data(), Scalar(0, GPUDNN_DATA_FLOAT), *desc, dx->data());
          },
          dx, naive(c, v)};
}

PreparedCall transform(const Backend& backend) {
  const char* line = "tensor transform f32 nchw n2c9h11w13 a:nhwc";
  const TensorCase c = case_of<tensor::Problem>(line, tensor::from_text);
  const Values v = make_values(c);
  const auto a_desc = std::make_shared<TensorDescriptor>(c.problem.a);
  const auto c_desc = std::make_shared<TensorDescriptor>(c.problem.c);
  const Shared a = make(backend, c.problem.a, v.x);
  const Shared out = make(backend, c.problem.c, {});
  return {line,
          [=](gpudnnHandle_t h) {
            return gpudnnTransformTensor(h, Scalar(1, GPUDNN_DATA_FLOAT), *a_desc, a->data(),
                                         Scalar(0, GPUDNN_DATA_FLOAT), *c_desc, out->data());
          },
          out, naive(c, v)};
}

PreparedCall add(const Backend& backend) {
  const char* line = "tensor add f32 nhwc n2c9h11w13 a:n1c9h1w1";
  const TensorCase c = case_of<tensor::Problem>(line, tensor::from_text);
  const Values v = make_values(c);
  const auto a_desc = std::make_shared<TensorDescriptor>(c.problem.a);
  const auto c_desc = std::make_shared<TensorDescriptor>(c.problem.c);
  const Shared a = make(backend, c.problem.a, v.x);
  const Shared out = make(backend, c.problem.c, {});
  return {line,
          [=](gpudnnHandle_t h) {
            return gpudnnAddTensor(h, Scalar(1, GPUDNN_DATA_FLOAT), *a_desc, a->data(), Scalar(0, GPUDNN_DATA_FLOAT),
                                   *c_desc, out->data());
          },
          out, naive(c, v)};
}

PreparedCall set_and_scale(const Backend& backend) {
  const char* line = "tensor scale f32 nhwc n2c9h11w13";
  const TensorCase c = case_of<tensor::Problem>(line, tensor::from_text);
  const auto desc = std::make_shared<TensorDescriptor>(c.problem.c);
  const Shared out = make(backend, c.problem.c, {});
  const std::vector<double> result(2 * 9 * 11 * 13, 3);
  return {"set, then scale",
          [=](gpudnnHandle_t h) {
            const float value = 1.5;
            const gpudnnStatus_t status = gpudnnSetTensor(h, *desc, out->data(), &value);
            return status != GPUDNN_STATUS_SUCCESS
                       ? status
                       : gpudnnScaleTensor(h, *desc, out->data(), Scalar(2, GPUDNN_DATA_FLOAT));
          },
          out,
          {result, std::vector<double>(result.size())}};
}

using ReduceDescriptor =
    Descriptor<gpudnnReduceTensorDescriptor_t, gpudnnCreateReduceTensorDescriptor, gpudnnDestroyReduceTensorDescriptor>;
using OpTensorDescriptor =
    Descriptor<gpudnnOpTensorDescriptor_t, gpudnnCreateOpTensorDescriptor, gpudnnDestroyOpTensorDescriptor>;

// The largest of all elements, in two stages: exact, so what is expected needs no slack.
PreparedCall reduce_to_maximum(const Backend& backend) {
  TensorGeometry a = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 1, std::array<std::int64_t, 1>{70000}.data());
  TensorGeometry c = packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 1, std::array<std::int64_t, 1>{1}.data());
  std::vector<double> values(70000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 69997);
  const auto reduction = std::make_shared<ReduceDescriptor>();
  GPUDNN_TEST_REQUIRE(gpudnnSetReduceTensorDescriptor(*reduction, GPUDNN_REDUCE_TENSOR_MAX, GPUDNN_DATA_FLOAT,
                                                      GPUDNN_PROPAGATE_NAN, GPUDNN_REDUCE_TENSOR_NO_INDICES,
                                                      GPUDNN_32BIT_INDICES));
  const auto a_desc = std::make_shared<TensorDescriptor>(a);
  const auto c_desc = std::make_shared<TensorDescriptor>(c);
  std::size_t bytes = 0;
  GPUDNN_TEST_REQUIRE(gpudnnGetReductionWorkspaceSize(backend.handle(), *reduction, *a_desc, *c_desc, &bytes));
  const auto workspace = std::make_shared<GuardedBuffer>(backend, bytes);
  const Shared in = make(backend, a, values);
  const Shared out = make(backend, c, {});
  return {"reduce max f32 nchw 70000 c:1 nan",
          [=](gpudnnHandle_t h) {
            return gpudnnReduceTensor(h, *reduction, nullptr, 0, workspace->data(), bytes, Scalar(1, GPUDNN_DATA_FLOAT),
                                      *a_desc, in->data(), Scalar(0, GPUDNN_DATA_FLOAT), *c_desc, out->data());
          },
          out,
          {{69996}, {0}}};
}

PreparedCall add_two(const Backend& backend) {
  const TensorGeometry a =
      packed_tensor(GPUDNN_DATA_HALF, GPUDNN_TENSOR_NHWC, 4, std::array<std::int64_t, 4>{2, 8, 3, 5}.data());
  const TensorGeometry b =
      packed_tensor(GPUDNN_DATA_HALF, GPUDNN_TENSOR_NCHW, 4, std::array<std::int64_t, 4>{1, 1, 1, 1}.data());
  std::vector<double> values(240), sums(240);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] = (values[i] = static_cast<double>(i)) + 5;
  const auto op = std::make_shared<OpTensorDescriptor>();
  GPUDNN_TEST_REQUIRE(
      gpudnnSetOpTensorDescriptor(*op, GPUDNN_OP_TENSOR_ADD, GPUDNN_DATA_FLOAT, GPUDNN_NOT_PROPAGATE_NAN));
  const auto a_desc = std::make_shared<TensorDescriptor>(a);
  const auto b_desc = std::make_shared<TensorDescriptor>(b);
  const Shared first = make(backend, a, values);
  const Shared second = make(backend, b, {5});
  const Shared out = make(backend, a, {});
  return {"optensor add f16 nhwc n2c8h3w5 b:n1c1h1w1",
          [=](gpudnnHandle_t h) {
            const Scalar one(1, GPUDNN_DATA_FLOAT);
            return gpudnnOpTensor(h, *op, one, *a_desc, first->data(), one, *b_desc, second->data(),
                                  Scalar(0, GPUDNN_DATA_FLOAT), *a_desc, out->data());
          },
          out,
          {sums, std::vector<double>(sums.size())}};
}

PreparedCall bias_gradient(const Backend& backend) {
  const char* line = "biasgrad f16 nhwc n3c40h19w17";
  const BiasGradCase c = case_of<bias_grad::Problem>(line, bias_grad::from_text);
  const Values v = make_values(c);
  const auto dy_desc = std::make_shared<TensorDescriptor>(c.problem.dy);
  const auto db_desc = std::make_shared<TensorDescriptor>(c.problem.db);
  const Shared dy = make(backend, c.problem.dy, v.dy);
  const Shared db = make(backend, c.problem.db, {});
  return {line,
          [=](gpudnnHandle_t h) {
            return gpudnnConvolutionBackwardBias(h, Scalar(1, GPUDNN_DATA_FLOAT), *dy_desc, dy->data(),
                                                 Scalar(0, GPUDNN_DATA_FLOAT), *db_desc, db->data());
          },
          db, naive(c, v)};
}

PreparedCall normalize(const Backend& backend, const char* train_line, bool backward) {
  const NormCase c = norm_case(train_line);
  const NormValues v = make_values(c);
  const norm::Problem& p = c.forward;
  const auto data = std::make_shared<TensorDescriptor>(p.x);
  const auto params = std::make_shared<TensorDescriptor>(p.params);
  const Shared x = make(backend, p.x, v.x);
  const Shared dy = make(backend, p.x, v.dy);
  const Shared out = make(backend, p.x, {});
  const Shared scale = make(backend, p.params, v.scale);
  const Shared bias = make(backend, p.params, v.bias);
  const Shared first = make(backend, p.params, {});
  const Shared second = make(backend, p.params, {});
  std::size_t bytes = 0;
  const auto mode = GPUDNN_BATCHNORM_SPATIAL;
  const auto ops = GPUDNN_BATCHNORM_OPS_BN;
  GPUDNN_TEST_REQUIRE(backward ? gpudnnGetBatchNormalizationBackwardExWorkspaceSize(backend.handle(), mode, ops, *data,
                                                                                    nullptr, *data, nullptr, *data,
                                                                                    *params, nullptr, &bytes)
                               : gpudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
                                     backend.handle(), mode, ops, *data, nullptr, *data, *params, nullptr, &bytes));
  const auto workspace = std::make_shared<GuardedBuffer>(backend, bytes);
  const std::string name = std::string(train_line) + (backward ? ", backward" : "");
  if (backward) {
    return {name,
            [=](gpudnnHandle_t h) {
              const Scalar one(1, GPUDNN_DATA_FLOAT);
              const Scalar zero(0, GPUDNN_DATA_FLOAT);
              return gpudnnBatchNormalizationBackwardEx(
                  h, mode, ops, one, zero, one, zero, *data, x->data(), nullptr, nullptr, *data, dy->data(), nullptr,
                  nullptr, *data, out->data(), *params, scale->data(), nullptr, first->data(), second->data(),
                  p.epsilon, nullptr, nullptr, nullptr, workspace->data(), bytes, nullptr, 0);
            },
            out, naive_backward(c, v, std::vector<char>(v.x.size(), 1), {}, {}).dx};
  }
  return {name,
          [=](gpudnnHandle_t h) {
            return gpudnnBatchNormalizationForwardTrainingEx(
                h, mode, ops, Scalar(1, GPUDNN_DATA_FLOAT), Scalar(0, GPUDNN_DATA_FLOAT), *data, x->data(), nullptr,
                nullptr, *data, out->data(), *params, scale->data(), bias->data(), 1, nullptr, nullptr, p.epsilon,
                first->data(), second->data(), nullptr, workspace->data(), bytes, nullptr, 0);
          },
          out, naive_forward(c, v, false).y};
}

PreparedCall local_response(const Backend& backend, const char* line) {
  const LrnCase c = case_of<lrn::Problem>(line, lrn::from_text);
  const Values v = make_values(c);
  const lrn::Problem p = c.problem;
  const auto norm = std::make_shared<LrnDescriptor>(p);
  const auto desc = std::make_shared<TensorDescriptor>(p.x);
  const Shared x = make(backend, p.x, v.x), dy = make(backend, p.x, v.dy), out = make(backend, p.x, {});
  const Shared temp = make(backend, p.x, {}), temp2 = make(backend, p.x, {});
  return {line,
          [=](gpudnnHandle_t h) {
            const Scalar one(1, GPUDNN_DATA_FLOAT), zero(0, GPUDNN_DATA_FLOAT);
            if (p.spatial) {
              return gpudnnDivisiveNormalizationBackward(h, *norm, GPUDNN_DIVNORM_PRECOMPUTED_MEANS, one, *desc,
                                                         x->data(), nullptr, dy->data(), temp->data(), temp2->data(),
                                                         zero, *desc, out->data(), nullptr);
            }
            if (p.backward) {
              return gpudnnLRNCrossChannelBackward(h, *norm, GPUDNN_LRN_CROSS_CHANNEL_DIM1, one, *desc, x->data(),
                                                   *desc, dy->data(), *desc, x->data(), zero, *desc, out->data());
            }
            return gpudnnLRNCrossChannelForward(h, *norm, GPUDNN_LRN_CROSS_CHANNEL_DIM1, one, *desc, x->data(), zero,
                                                *desc, out->data());
          },
          out, naive(c, v)};
}

}  // namespace

std::vector<PreparedCall> every_operation(const Backend& backend) {
  std::vector<PreparedCall> calls;
  for (const char* line : {"conv fwd f32 nchw n2c17h13w11 k19r3s3 p1x1 t1x1 d1x1 g1",
                           "conv fwd f16 nhwc n2c64h14w14 k64r3s3 p1x1 t1x1 d1x1 g1 math=tensor",
                           "conv fwd f16 nchw n2c64h14w14 k64r3s3 p1x1 t1x1 d1x1 g1 math=tensor",
                           "conv wgrad f16 nchw n8c64h14w14 k64r3s3 p1x1 t1x1 d1x1 g1 math=tensor",
                           "conv dgrad bf16 nhwc n2c64h14w14 k64r3s3 p1x1 t2x2 d1x1 g1 math=tensor",
                           "conv dgrad f32 nchw n2c17h13w11 k19r3s3 p1x1 t2x1 d1x1 g1",
                           "conv wgrad f16 nhwc n8c64h14w14 k64r3s3 p1x1 t1x1 d1x1 g1 math=tensor",
                           "conv wgrad f32 nchw n9c17h13w11 k19r3s3 p1x1 t1x1 d1x1 g1"}) {
    calls.push_back(convolution(backend, line));
  }
  for (const char* line :
       {"pool fwd max f16 nhwc n2c24h13w11 r3s3 p1x1 t2x2", "pool fwd avg f32 nchw n2c7h13w11 r3s3 p1x1 t2x2",
        "pool bwd max f32 nchw n2c7h13w11 r3s3 p1x1 t1x1", "pool bwd avg f16 nhwc n2c24h13w11 r3s3 p1x1 t2x2"}) {
    calls.push_back(pool(backend, line));
  }
  for (const char* line : {"act fwd tanh f16 nhwc n2c24h13w11", "act bwd sigmoid f32 nchw n2c7h13w11"}) {
    calls.push_back(activate(backend, line));
  }
  for (const char* line :
       {"softmax fwd accurate channel f32 nchw n5c1000h1w1", "softmax fwd log instance f16 nhwc n3c24h5w7",
        "softmax bwd accurate channel f32 nchw n5c1000h1w1", "softmax bwd accurate channel f16 nchw n3c24h5w7"}) {
    calls.push_back(soften(backend, line));
  }
  for (const char* line : {"lrn fwd channel f16 nhwc n2c24h13w11 n=5 alpha=1 beta=0.75 k=1",
                           "lrn bwd channel f32 nchw n2c40h13w12 n=5 alpha=1 beta=0.75 k=1",
                           "lrn bwd channel f16 nchw n2c40h13w11 n=8 alpha=1 beta=0.75 k=1",
                           "lrn bwd spatial f16 nchw n2c7h13w11 n=5 alpha=1 beta=0.75 k=1"}) {
    calls.push_back(local_response(backend, line));
  }
  calls.push_back(transform(backend));
  calls.push_back(add(backend));
  calls.push_back(set_and_scale(backend));
  calls.push_back(bias_gradient(backend));
  for (const char* line : {"bn train spatial f32 nchw n3c20h13w11", "bn train spatial f16 nhwc n9c64h24w24"}) {
    calls.push_back(normalize(backend, line, false));
    calls.push_back(normalize(backend, line, true));
  }
  add_more_operations(backend, &calls);
  add_sequence_operations(backend, &calls);
  calls.push_back(reduce_to_maximum(backend));
  calls.push_back(add_two(backend));
  return calls;
}

}  // namespace gpudnn::test
