// The two-operand tensor operation.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/op_tensor/problem.hpp"

using namespace gpudnn;

extern "C" gpudnnStatus_t gpudnnOpTensor(gpudnnHandle_t handle, const gpudnnOpTensorDescriptor_t opTensorDesc,
                                         const void* alpha1, const gpudnnTensorDescriptor_t aDesc, const void* A,
                                         const void* alpha2, const gpudnnTensorDescriptor_t bDesc, const void* B,
                                         const void* beta, const gpudnnTensorDescriptor_t cDesc, void* C) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_OBJECT(opTensorDesc, Kind::op_tensor);
    GPUDNN_REQUIRE(opTensorDesc->set, GPUDNN_STATUS_BAD_PARAM,
                   "opTensorDesc was created but never set; call gpudnnSetOpTensorDescriptor");
    const bool binary = op_tensor::has_b(opTensorDesc->op);
    GPUDNN_CHECK_POINTER(alpha1);
    GPUDNN_CHECK_TENSOR(aDesc);
    GPUDNN_CHECK_DATA(A, aDesc);
    if (binary) {
      GPUDNN_CHECK_POINTER(alpha2);
      GPUDNN_CHECK_TENSOR(bDesc);
      GPUDNN_CHECK_DATA(B, bDesc);
    }
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(cDesc);
    GPUDNN_CHECK_DATA(C, cDesc);
    op_tensor::Problem problem;
    problem.op = opTensorDesc->op;
    problem.compute = opTensorDesc->compute;
    problem.nan = opTensorDesc->nan;
    problem.a = aDesc->geometry;
    if (binary) problem.b = bDesc->geometry;
    problem.c = cDesc->geometry;
    GPUDNN_TRY(op_tensor::validate(problem));
    op_tensor::Args args;
    args.alpha1 = scalar(alpha1, problem.c.type);
    if (binary) args.alpha2 = scalar(alpha2, problem.c.type);
    args.beta = scalar(beta, problem.c.type);
    args.a = A;
    if (binary) args.b = B;
    args.c = C;
    return op_tensor::run(handle, problem, args);
  });
}
