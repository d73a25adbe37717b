// CTC-loss descriptors, costs and gradients.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/ctc/problem.hpp"

using namespace gpudnn;

namespace {

Status check_ctc(gpudnnCTCLossDescriptor_t ctcLossDesc) {
  GPUDNN_CHECK_OBJECT(ctcLossDesc, Kind::ctc_loss);
  GPUDNN_REQUIRE(ctcLossDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "ctcLossDesc was created but never set; call gpudnnSetCTCLossDescriptor_v9");
  return GPUDNN_STATUS_SUCCESS;
}

// All setters. `gradients` is a gpudnnNanPropagation_t or a gpudnnCTCGradMode_t: their values mean the same here.
Status set_ctc(gpudnnCTCLossDescriptor_t ctcLossDesc, gpudnnDataType_t compType, int normMode, int gradients,
               const char* gradients_name, int maxLabelLength) {
  GPUDNN_CHECK_OBJECT(ctcLossDesc, Kind::ctc_loss);
  GPUDNN_TRY(check_data_type(compType, "compType"));
  GPUDNN_REQUIRE(compType == GPUDNN_DATA_FLOAT || compType == GPUDNN_DATA_DOUBLE, GPUDNN_STATUS_NOT_SUPPORTED,
                 "compType is %s; CTC losses are built for f32 and f64", data_type_name(compType));
  GPUDNN_TRY(check_enum(normMode, GPUDNN_LOSS_NORMALIZATION_NONE, GPUDNN_LOSS_NORMALIZATION_SOFTMAX, "normMode"));
  GPUDNN_TRY(check_enum(gradients, GPUDNN_CTC_ZERO_OOB_GRADIENTS, GPUDNN_CTC_SKIP_OOB_GRADIENTS, gradients_name));
  ctcLossDesc->set = true;
  ctcLossDesc->compute = compType;
  ctcLossDesc->normalization = static_cast<gpudnnLossNormalizationMode_t>(normMode);
  ctcLossDesc->gradients = static_cast<gpudnnCTCGradMode_t>(gradients);
  ctcLossDesc->max_label_length = maxLabelLength;
  return GPUDNN_STATUS_SUCCESS;
}

Status check_length(int maxLabelLength) {
  GPUDNN_REQUIRE(maxLabelLength >= 0, GPUDNN_STATUS_BAD_PARAM, "maxLabelLength is %d; it must not be negative",
                 maxLabelLength);
  return GPUDNN_STATUS_SUCCESS;
}

// The problem but for the labels. A null gradientsDesc means costs only.
Status make_problem(gpudnnCTCLossDescriptor_t ctcLossDesc, gpudnnTensorDescriptor_t probsDesc,
                    gpudnnTensorDescriptor_t gradientsDesc, int algo, ctc::Problem* problem) {
  GPUDNN_TRY(check_enum(algo, GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, GPUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC, "algo"));
  problem->x = probsDesc->geometry;
  problem->has_gradients = gradientsDesc != nullptr;
  if (problem->has_gradients) problem->gradients = gradientsDesc->geometry;
  problem->softmax = ctcLossDesc->normalization == GPUDNN_LOSS_NORMALIZATION_SOFTMAX;
  problem->skip_impossible = ctcLossDesc->gradients == GPUDNN_CTC_SKIP_OOB_GRADIENTS;
  GPUDNN_TRY(ctc::validate(*problem));
  GPUDNN_REQUIRE(problem->x.type == ctcLossDesc->compute, GPUDNN_STATUS_BAD_PARAM,
                 "probsDesc data type %s differs from ctcLossDesc's compute type %s", data_type_name(problem->x.type),
                 data_type_name(ctcLossDesc->compute));
  return GPUDNN_STATUS_SUCCESS;
}

// The longest label sequence that the descriptor promises.
Status take_length(gpudnnCTCLossDescriptor_t ctcLossDesc, ctc::Problem* problem) {
  GPUDNN_REQUIRE(ctcLossDesc->max_label_length >= 0, GPUDNN_STATUS_BAD_PARAM,
                 "ctcLossDesc has no maxLabelLength; set it by gpudnnSetCTCLossDescriptor_v8 or _v9");
  problem->max_labels = ctcLossDesc->max_label_length;
  return ctc::validate(*problem);
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateCTCLossDescriptor(gpudnnCTCLossDescriptor_t* ctcLossDesc) {
  return guard(__func__, [&]() -> Status { return create_object(ctcLossDesc, "ctcLossDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyCTCLossDescriptor(gpudnnCTCLossDescriptor_t ctcLossDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(ctcLossDesc, Kind::ctc_loss, "ctcLossDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetCTCLossDescriptor(gpudnnCTCLossDescriptor_t ctcLossDesc, gpudnnDataType_t compType) {
  return guard(__func__, [&]() -> Status {
    return set_ctc(ctcLossDesc, compType, GPUDNN_LOSS_NORMALIZATION_NONE, GPUDNN_NOT_PROPAGATE_NAN, "gradMode", -1);
  });
}

extern "C" gpudnnStatus_t gpudnnSetCTCLossDescriptorEx(gpudnnCTCLossDescriptor_t ctcLossDesc, gpudnnDataType_t compType,
                                                       gpudnnLossNormalizationMode_t normMode,
                                                       gpudnnNanPropagation_t gradMode) {
  return guard(__func__,
               [&]() -> Status { return set_ctc(ctcLossDesc, compType, normMode, gradMode, "gradMode", -1); });
}

extern "C" gpudnnStatus_t gpudnnSetCTCLossDescriptor_v8(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                        gpudnnDataType_t compType,
                                                        gpudnnLossNormalizationMode_t normMode,
                                                        gpudnnNanPropagation_t gradMode, int maxLabelLength) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_length(maxLabelLength));
    return set_ctc(ctcLossDesc, compType, normMode, gradMode, "gradMode", maxLabelLength);
  });
}

extern "C" gpudnnStatus_t gpudnnSetCTCLossDescriptor_v9(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                        gpudnnDataType_t compType,
                                                        gpudnnLossNormalizationMode_t normMode,
                                                        gpudnnCTCGradMode_t ctcGradMode, int maxLabelLength) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_length(maxLabelLength));
    return set_ctc(ctcLossDesc, compType, normMode, ctcGradMode, "ctcGradMode", maxLabelLength);
  });
}

extern "C" gpudnnStatus_t gpudnnGetCTCLossDescriptor(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                     gpudnnDataType_t* compType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_ctc(ctcLossDesc));
    if (compType != nullptr) *compType = ctcLossDesc->compute;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetCTCLossDescriptorEx(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                       gpudnnDataType_t* compType,
                                                       gpudnnLossNormalizationMode_t* normMode,
                                                       gpudnnNanPropagation_t* gradMode) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_ctc(ctcLossDesc));
    if (compType != nullptr) *compType = ctcLossDesc->compute;
    if (normMode != nullptr) *normMode = ctcLossDesc->normalization;
    if (gradMode != nullptr) *gradMode = static_cast<gpudnnNanPropagation_t>(ctcLossDesc->gradients);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetCTCLossDescriptor_v8(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                        gpudnnDataType_t* compType,
                                                        gpudnnLossNormalizationMode_t* normMode,
                                                        gpudnnNanPropagation_t* gradMode, int* maxLabelLength) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_ctc(ctcLossDesc));
    if (compType != nullptr) *compType = ctcLossDesc->compute;
    if (normMode != nullptr) *normMode = ctcLossDesc->normalization;
    if (gradMode != nullptr) *gradMode = static_cast<gpudnnNanPropagation_t>(ctcLossDesc->gradients);
    if (maxLabelLength != nullptr) *maxLabelLength = std::max(ctcLossDesc->max_label_length, 0);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetCTCLossDescriptor_v9(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                        gpudnnDataType_t* compType,
                                                        gpudnnLossNormalizationMode_t* normMode,
                                                        gpudnnCTCGradMode_t* ctcGradMode, int* maxLabelLength) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_ctc(ctcLossDesc));
    if (compType != nullptr) *compType = ctcLossDesc->compute;
    if (normMode != nullptr) *normMode = ctcLossDesc->normalization;
    if (ctcGradMode != nullptr) *ctcGradMode = ctcLossDesc->gradients;
    if (maxLabelLength != nullptr) *maxLabelLength = std::max(ctcLossDesc->max_label_length, 0);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetCTCLossWorkspaceSize(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t probsDesc,
                                                        const gpudnnTensorDescriptor_t gradientsDesc, const int* labels,
                                                        const int* labelLengths, const int* inputLengths,
                                                        gpudnnCTCLossAlgo_t algo, gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                        size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_TENSOR(probsDesc);
    if (gradientsDesc != nullptr) GPUDNN_CHECK_TENSOR(gradientsDesc);
    GPUDNN_CHECK_POINTER(labels);
    GPUDNN_CHECK_POINTER(labelLengths);
    GPUDNN_CHECK_POINTER(inputLengths);
    GPUDNN_TRY(check_ctc(ctcLossDesc));
    GPUDNN_CHECK_POINTER(sizeInBytes);
    ctc::Problem problem;
    GPUDNN_TRY(make_problem(ctcLossDesc, probsDesc, gradientsDesc, algo, &problem));
    GPUDNN_TRY(ctc::read_host_labels(nullptr, labelLengths, inputLengths, &problem));
    *sizeInBytes = ctc::workspace_size(problem);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetCTCLossWorkspaceSize_v8(gpudnnHandle_t handle, gpudnnCTCLossAlgo_t algo,
                                                           gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                           const gpudnnTensorDescriptor_t probsDesc,
                                                           const gpudnnTensorDescriptor_t gradientsDesc,
                                                           size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_ctc(ctcLossDesc));
    GPUDNN_CHECK_TENSOR(probsDesc);
    if (gradientsDesc != nullptr) GPUDNN_CHECK_TENSOR(gradientsDesc);
    GPUDNN_CHECK_POINTER(sizeInBytes);
    ctc::Problem problem;
    GPUDNN_TRY(make_problem(ctcLossDesc, probsDesc, gradientsDesc, algo, &problem));
    GPUDNN_TRY(take_length(ctcLossDesc, &problem));
    *sizeInBytes = ctc::workspace_size(problem);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnCTCLoss(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t probsDesc,
                                        const void* probs, const int hostLabels[], const int hostLabelLengths[],
                                        const int hostInputLengths[], void* costs,
                                        const gpudnnTensorDescriptor_t gradientsDesc, void* gradients,
                                        gpudnnCTCLossAlgo_t algo, gpudnnCTCLossDescriptor_t ctcLossDesc,
                                        void* workspace, size_t workSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_TENSOR(probsDesc);
    GPUDNN_CHECK_DATA(probs, probsDesc);
    GPUDNN_CHECK_POINTER(hostLabels);
    GPUDNN_CHECK_POINTER(hostLabelLengths);
    GPUDNN_CHECK_POINTER(hostInputLengths);
    GPUDNN_CHECK_POINTER(costs);
    if (gradients != nullptr) GPUDNN_CHECK_TENSOR(gradientsDesc);
    GPUDNN_TRY(check_ctc(ctcLossDesc));
    ctc::Problem problem;
    GPUDNN_TRY(make_problem(ctcLossDesc, probsDesc, gradients != nullptr ? gradientsDesc : nullptr, algo, &problem));
    GPUDNN_TRY(ctc::read_host_labels(hostLabels, hostLabelLengths, hostInputLengths, &problem));
    return ctc::run(
        handle, problem,
        {probs, hostLabels, hostLabelLengths, hostInputLengths, costs, gradients, workspace, workSpaceSizeInBytes});
  });
}

extern "C" gpudnnStatus_t gpudnnCTCLoss_v8(gpudnnHandle_t handle, gpudnnCTCLossAlgo_t algo,
                                           gpudnnCTCLossDescriptor_t ctcLossDesc,
                                           const gpudnnTensorDescriptor_t probsDesc, const void* probs,
                                           const int labels[], const int labelLengths[], const int inputLengths[],
                                           void* costs, const gpudnnTensorDescriptor_t gradientsDesc, void* gradients,
                                           size_t workSpaceSizeInBytes, void* workspace) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_ctc(ctcLossDesc));
    GPUDNN_CHECK_TENSOR(probsDesc);
    GPUDNN_CHECK_DATA(probs, probsDesc);
    GPUDNN_CHECK_POINTER(labels);
    GPUDNN_CHECK_POINTER(labelLengths);
    GPUDNN_CHECK_POINTER(inputLengths);
    GPUDNN_CHECK_POINTER(costs);
    if (gradients != nullptr) GPUDNN_CHECK_TENSOR(gradientsDesc);
    ctc::Problem problem;
    GPUDNN_TRY(make_problem(ctcLossDesc, probsDesc, gradients != nullptr ? gradientsDesc : nullptr, algo, &problem));
    GPUDNN_TRY(take_length(ctcLossDesc, &problem));
    return ctc::run(handle, problem,
                    {probs, labels, labelLengths, inputLengths, costs, gradients, workspace, workSpaceSizeInBytes});
  });
}
