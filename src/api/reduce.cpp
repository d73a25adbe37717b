// Reduction descriptors and reductions over tensor dimensions.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/reduce/problem.hpp"

using namespace gpudnn;

namespace {

Status check_reduce(gpudnnReduceTensorDescriptor_t reduceTensorDesc) {
  GPUDNN_CHECK_OBJECT(reduceTensorDesc, Kind::reduce_tensor);
  GPUDNN_REQUIRE(reduceTensorDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "reduceTensorDesc was created but never set; call gpudnnSetReduceTensorDescriptor");
  return GPUDNN_STATUS_SUCCESS;
}

Status make_problem(gpudnnReduceTensorDescriptor_t reduceTensorDesc, gpudnnTensorDescriptor_t aDesc,
                    gpudnnTensorDescriptor_t cDesc, reduce::Problem* problem) {
  problem->op = reduceTensorDesc->op;
  problem->compute = reduceTensorDesc->compute;
  problem->nan = reduceTensorDesc->nan;
  problem->indices = reduceTensorDesc->indices;
  problem->index_type = reduceTensorDesc->index_type;
  problem->a = aDesc->geometry;
  problem->c = cDesc->geometry;
  return reduce::validate(*problem);
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t* reduceTensorDesc) {
  return guard(__func__, [&]() -> Status { return create_object(reduceTensorDesc, "reduceTensorDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t reduceTensorDesc) {
  return guard(__func__,
               [&]() -> Status { return destroy_object(reduceTensorDesc, Kind::reduce_tensor, "reduceTensorDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t reduceTensorDesc,
                                                          gpudnnReduceTensorOp_t reduceTensorOp,
                                                          gpudnnDataType_t reduceTensorCompType,
                                                          gpudnnNanPropagation_t reduceTensorNanOpt,
                                                          gpudnnReduceTensorIndices_t reduceTensorIndices,
                                                          gpudnnIndicesType_t reduceTensorIndicesType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(reduceTensorDesc, Kind::reduce_tensor);
    GPUDNN_TRY(
        check_enum(reduceTensorOp, GPUDNN_REDUCE_TENSOR_ADD, GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS, "reduceTensorOp"));
    GPUDNN_TRY(check_data_type(reduceTensorCompType, "reduceTensorCompType"));
    GPUDNN_TRY(check_enum(reduceTensorNanOpt, GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN, "reduceTensorNanOpt"));
    GPUDNN_TRY(check_enum(reduceTensorIndices, GPUDNN_REDUCE_TENSOR_NO_INDICES, GPUDNN_REDUCE_TENSOR_FLATTENED_INDICES,
                          "reduceTensorIndices"));
    GPUDNN_TRY(
        check_enum(reduceTensorIndicesType, GPUDNN_32BIT_INDICES, GPUDNN_8BIT_INDICES, "reduceTensorIndicesType"));
    reduceTensorDesc->set = true;
    reduceTensorDesc->op = reduceTensorOp;
    reduceTensorDesc->compute = reduceTensorCompType;
    reduceTensorDesc->nan = reduceTensorNanOpt;
    reduceTensorDesc->indices = reduceTensorIndices;
    reduceTensorDesc->index_type = reduceTensorIndicesType;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetReduceTensorDescriptor(const gpudnnReduceTensorDescriptor_t reduceTensorDesc,
                                                          gpudnnReduceTensorOp_t* reduceTensorOp,
                                                          gpudnnDataType_t* reduceTensorCompType,
                                                          gpudnnNanPropagation_t* reduceTensorNanOpt,
                                                          gpudnnReduceTensorIndices_t* reduceTensorIndices,
                                                          gpudnnIndicesType_t* reduceTensorIndicesType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_reduce(reduceTensorDesc));
    if (reduceTensorOp != nullptr) *reduceTensorOp = reduceTensorDesc->op;
    if (reduceTensorCompType != nullptr) *reduceTensorCompType = reduceTensorDesc->compute;
    if (reduceTensorNanOpt != nullptr) *reduceTensorNanOpt = reduceTensorDesc->nan;
    if (reduceTensorIndices != nullptr) *reduceTensorIndices = reduceTensorDesc->indices;
    if (reduceTensorIndicesType != nullptr) *reduceTensorIndicesType = reduceTensorDesc->index_type;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetReductionIndicesSize(gpudnnHandle_t handle,
                                                        const gpudnnReduceTensorDescriptor_t reduceTensorDesc,
                                                        const gpudnnTensorDescriptor_t aDesc,
                                                        const gpudnnTensorDescriptor_t cDesc, size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_reduce(reduceTensorDesc));
    GPUDNN_CHECK_TENSOR(aDesc);
    GPUDNN_CHECK_TENSOR(cDesc);
    GPUDNN_CHECK_POINTER(sizeInBytes);
    reduce::Problem problem;
    GPUDNN_TRY(make_problem(reduceTensorDesc, aDesc, cDesc, &problem));
    *sizeInBytes = reduce::indices_size(problem);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetReductionWorkspaceSize(gpudnnHandle_t handle,
                                                          const gpudnnReduceTensorDescriptor_t reduceTensorDesc,
                                                          const gpudnnTensorDescriptor_t aDesc,
                                                          const gpudnnTensorDescriptor_t cDesc, size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_reduce(reduceTensorDesc));
    GPUDNN_CHECK_TENSOR(aDesc);
    GPUDNN_CHECK_TENSOR(cDesc);
    GPUDNN_CHECK_POINTER(sizeInBytes);
    reduce::Problem problem;
    GPUDNN_TRY(make_problem(reduceTensorDesc, aDesc, cDesc, &problem));
    *sizeInBytes = reduce::workspace_size(problem, *handle->device);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnReduceTensor(gpudnnHandle_t handle,
                                             const gpudnnReduceTensorDescriptor_t reduceTensorDesc, void* indices,
                                             size_t indicesSizeInBytes, void* workspace, size_t workspaceSizeInBytes,
                                             const void* alpha, const gpudnnTensorDescriptor_t aDesc, const void* A,
                                             const void* beta, const gpudnnTensorDescriptor_t cDesc, void* C) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_reduce(reduceTensorDesc));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(aDesc);
    GPUDNN_CHECK_DATA(A, aDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(cDesc);
    GPUDNN_CHECK_DATA(C, cDesc);
    reduce::Problem problem;
    GPUDNN_TRY(make_problem(reduceTensorDesc, aDesc, cDesc, &problem));
    const std::size_t needed = reduce::indices_size(problem);
    GPUDNN_REQUIRE(needed == 0 || indices != nullptr, GPUDNN_STATUS_BAD_PARAM,
                   "indices is null; it must point to the %zu bytes that gpudnnGetReductionIndicesSize tells", needed);
    GPUDNN_REQUIRE(indicesSizeInBytes >= needed, GPUDNN_STATUS_BAD_PARAM,
                   "indicesSizeInBytes is %zu; it must be at least the %zu that gpudnnGetReductionIndicesSize tells",
                   indicesSizeInBytes, needed);
    GPUDNN_REQUIRE(workspace != nullptr || workspaceSizeInBytes == 0, GPUDNN_STATUS_BAD_PARAM,
                   "workspace is null, but workspaceSizeInBytes is %zu; pass 0 for a reduction without workspace",
                   workspaceSizeInBytes);
    reduce::Args args;
    args.alpha = scalar(alpha, problem.c.type);
    args.beta = scalar(beta, problem.c.type);
    args.a = A;
    args.c = C;
    args.indices = needed > 0 ? indices : nullptr;
    return reduce::run(handle, problem, args, workspace, workspaceSizeInBytes);
  });
}
