// Softmax.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/softmax/problem.hpp"

using namespace gpudnn;

namespace {

Status check_choice(gpudnnSoftmaxAlgorithm_t algo, gpudnnSoftmaxMode_t mode) {
  GPUDNN_TRY(check_enum(algo, GPUDNN_SOFTMAX_FAST, GPUDNN_SOFTMAX_LOG, "algo"));
  return check_enum(mode, GPUDNN_SOFTMAX_MODE_INSTANCE, GPUDNN_SOFTMAX_MODE_CHANNEL, "mode");
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnSoftmaxForward(gpudnnHandle_t handle, gpudnnSoftmaxAlgorithm_t algo,
                                               gpudnnSoftmaxMode_t mode, const void* alpha,
                                               const gpudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
                                               const gpudnnTensorDescriptor_t yDesc, void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_choice(algo, mode));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    softmax::Problem problem;
    problem.algorithm = algo;
    problem.mode = mode;
    problem.x = xDesc->geometry;
    problem.y = yDesc->geometry;
    GPUDNN_TRY(softmax::validate(problem));
    softmax::Args args;
    args.alpha = scalar(alpha, problem.y.type);
    args.beta = scalar(beta, problem.y.type);
    args.x = x;
    args.out = y;
    return softmax::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnSoftmaxBackward(gpudnnHandle_t handle, gpudnnSoftmaxAlgorithm_t algo,
                                                gpudnnSoftmaxMode_t mode, const void* alpha,
                                                const gpudnnTensorDescriptor_t yDesc, const void* y,
                                                const gpudnnTensorDescriptor_t dyDesc, const void* dy, const void* beta,
                                                const gpudnnTensorDescriptor_t dxDesc, void* dx) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_choice(algo, mode));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_CHECK_TENSOR(dyDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(dxDesc);
    GPUDNN_CHECK_DATA(dx, dxDesc);
    softmax::Problem problem;
    problem.backward = true;
    problem.algorithm = algo;
    problem.mode = mode;
    problem.y = yDesc->geometry;
    problem.dy = dyDesc->geometry;
    problem.dx = dxDesc->geometry;
    GPUDNN_TRY(softmax::validate(problem));
    softmax::Args args;
    args.alpha = scalar(alpha, problem.dx.type);
    args.beta = scalar(beta, problem.dx.type);
    args.y = y;
    args.dy = dy;
    args.out = dx;
    return softmax::run(handle, problem, args);
  });
}
