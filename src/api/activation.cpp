// Activation descriptors and activations.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/activation/problem.hpp"

using namespace gpudnn;

namespace {

Status check_activation(gpudnnActivationDescriptor_t activationDesc) {
  GPUDNN_CHECK_OBJECT(activationDesc, Kind::activation);
  GPUDNN_REQUIRE(activationDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "activationDesc was created but never set; call gpudnnSetActivationDescriptor");
  return GPUDNN_STATUS_SUCCESS;
}

activation::Problem make_problem(gpudnnActivationDescriptor_t activationDesc, gpudnnTensorDescriptor_t xDesc,
                                 gpudnnTensorDescriptor_t yDesc) {
  activation::Problem problem;
  problem.mode = activationDesc->mode;
  problem.nan = activationDesc->nan;
  problem.coef = problem.mode == GPUDNN_ACTIVATION_SWISH ? activationDesc->swish_beta : activationDesc->coef;
  problem.x = xDesc->geometry;
  problem.y = yDesc->geometry;
  return problem;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateActivationDescriptor(gpudnnActivationDescriptor_t* activationDesc) {
  return guard(__func__, [&]() -> Status { return create_object(activationDesc, "activationDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyActivationDescriptor(gpudnnActivationDescriptor_t activationDesc) {
  return guard(__func__,
               [&]() -> Status { return destroy_object(activationDesc, Kind::activation, "activationDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetActivationDescriptor(gpudnnActivationDescriptor_t activationDesc,
                                                        gpudnnActivationMode_t mode, gpudnnNanPropagation_t reluNanOpt,
                                                        double coef) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(activationDesc, Kind::activation);
    GPUDNN_TRY(check_enum(mode, GPUDNN_ACTIVATION_SIGMOID, GPUDNN_ACTIVATION_SWISH, "mode"));
    GPUDNN_TRY(check_enum(reluNanOpt, GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN, "reluNanOpt"));
    activationDesc->set = true;
    activationDesc->mode = mode;
    activationDesc->nan = reluNanOpt;
    activationDesc->coef = coef;
    note_problem_lazily([&] {
      return "mode=" + std::to_string(mode) + " coef=" + std::to_string(coef) +
             (reluNanOpt == GPUDNN_PROPAGATE_NAN ? " nan=propagate" : "");
    });
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetActivationDescriptor(const gpudnnActivationDescriptor_t activationDesc,
                                                        gpudnnActivationMode_t* mode,
                                                        gpudnnNanPropagation_t* reluNanOpt, double* coef) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_activation(activationDesc));
    if (mode != nullptr) *mode = activationDesc->mode;
    if (reluNanOpt != nullptr) *reluNanOpt = activationDesc->nan;
    if (coef != nullptr) *coef = activationDesc->coef;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetActivationDescriptorSwishBeta(gpudnnActivationDescriptor_t activationDesc,
                                                                 double swish_beta) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(activationDesc, Kind::activation);
    activationDesc->swish_beta = swish_beta;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetActivationDescriptorSwishBeta(gpudnnActivationDescriptor_t activationDesc,
                                                                 double* swish_beta) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(activationDesc, Kind::activation);
    GPUDNN_CHECK_POINTER(swish_beta);
    *swish_beta = activationDesc->swish_beta;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnActivationForward(gpudnnHandle_t handle, gpudnnActivationDescriptor_t activationDesc,
                                                  const void* alpha, const gpudnnTensorDescriptor_t xDesc,
                                                  const void* x, const void* beta, const gpudnnTensorDescriptor_t yDesc,
                                                  void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_activation(activationDesc));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    const activation::Problem problem = make_problem(activationDesc, xDesc, yDesc);
    GPUDNN_TRY(activation::validate(problem));
    activation::Args args;
    args.alpha = scalar(alpha, problem.y.type);
    args.beta = scalar(beta, problem.y.type);
    args.x = x;
    args.out = y;
    return activation::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnActivationBackward(gpudnnHandle_t handle, gpudnnActivationDescriptor_t activationDesc,
                                                   const void* alpha, const gpudnnTensorDescriptor_t yDesc,
                                                   const void* y, const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                   const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                   const void* beta, const gpudnnTensorDescriptor_t dxDesc, void* dx) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_activation(activationDesc));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_CHECK_TENSOR(dyDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(dxDesc);
    GPUDNN_CHECK_DATA(dx, dxDesc);
    activation::Problem problem = make_problem(activationDesc, xDesc, yDesc);
    problem.backward = true;
    problem.dx = dxDesc->geometry;
    problem.dy = dyDesc->geometry;
    GPUDNN_TRY(activation::validate(problem));
    activation::Args args;
    args.alpha = scalar(alpha, problem.dx.type);
    args.beta = scalar(beta, problem.dx.type);
    args.x = x;
    args.y = y;
    args.dy = dy;
    args.out = dx;
    return activation::run(handle, problem, args);
  });
}
