// Entry points of the normalization calls with separate descriptors for parameters and statistics.
// SPDX-License-Identifier: Apache-2.0
#include "api/norm_call.hpp"

using namespace gpudnn;

namespace {

Status check_choices(gpudnnNormMode_t mode, gpudnnNormAlgo_t algo, int groupCnt) {
  GPUDNN_TRY(check_enum(mode, GPUDNN_NORM_PER_ACTIVATION, GPUDNN_NORM_PER_CHANNEL, "mode"));
  GPUDNN_TRY(check_enum(algo, GPUDNN_NORM_ALGO_STANDARD, GPUDNN_NORM_ALGO_PERSIST, "algo"));
  GPUDNN_REQUIRE(groupCnt == 1, GPUDNN_STATUS_BAD_PARAM, "groupCnt is %d; it must be 1", groupCnt);
  return GPUDNN_STATUS_SUCCESS;
}

gpudnnBatchNormOps_t ops_of(gpudnnNormOps_t ops) { return static_cast<gpudnnBatchNormOps_t>(ops); }

}  // namespace

extern "C" gpudnnStatus_t gpudnnDeriveNormTensorDescriptor(gpudnnTensorDescriptor_t derivedNormScaleBiasDesc,
                                                           gpudnnTensorDescriptor_t derivedNormMeanVarDesc,
                                                           const gpudnnTensorDescriptor_t xDesc, gpudnnNormMode_t mode,
                                                           int groupCnt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(derivedNormScaleBiasDesc, Kind::tensor);
    GPUDNN_CHECK_OBJECT(derivedNormMeanVarDesc, Kind::tensor);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_TRY(check_choices(mode, GPUDNN_NORM_ALGO_STANDARD, groupCnt));
    GPUDNN_TRY(norm::check_input(xDesc));
    const TensorGeometry derived = norm::parameter_geometry(xDesc->geometry, mode == GPUDNN_NORM_PER_ACTIVATION);
    derivedNormScaleBiasDesc->geometry = derivedNormMeanVarDesc->geometry = derived;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnNormalizationForwardInference(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo, const void* alpha,
    const void* beta, const gpudnnTensorDescriptor_t xDesc, const void* x,
    const gpudnnTensorDescriptor_t normScaleBiasDesc, const void* normScale, const void* normBias,
    const gpudnnTensorDescriptor_t normMeanVarDesc, const void* estimatedMean, const void* estimatedVariance,
    const gpudnnTensorDescriptor_t zDesc, const void* z, gpudnnActivationDescriptor_t activationDesc,
    const gpudnnTensorDescriptor_t yDesc, void* y, double epsilon, int groupCnt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_choices(mode, algo, groupCnt));
    norm::ForwardCall call;
    call.names = &norm::kNormInferenceNames;
    call.set(norm::Pass::infer, mode == GPUDNN_NORM_PER_ACTIVATION, ops_of(normOps));
    call.alpha = alpha, call.beta = beta;
    call.xDesc = xDesc, call.x = x, call.zDesc = zDesc, call.z = z, call.yDesc = yDesc, call.y = y;
    call.scaleBiasDesc = normScaleBiasDesc, call.meanVarDesc = normMeanVarDesc;
    call.scale = normScale, call.bias = normBias;
    call.estimatedMean = estimatedMean, call.estimatedVariance = estimatedVariance;
    call.epsilon = epsilon;
    call.activationDesc = activationDesc;
    return norm::run_forward(handle, call);
  });
}

extern "C" gpudnnStatus_t gpudnnGetNormalizationForwardTrainingWorkspaceSize(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo,
    const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t zDesc, const gpudnnTensorDescriptor_t yDesc,
    const gpudnnTensorDescriptor_t normScaleBiasDesc, const gpudnnActivationDescriptor_t activationDesc,
    const gpudnnTensorDescriptor_t normMeanVarDesc, size_t* sizeInBytes, int groupCnt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_choices(mode, algo, groupCnt));
    norm::ForwardCall call;
    call.names = &norm::kNormNames;
    call.set(norm::Pass::train, mode == GPUDNN_NORM_PER_ACTIVATION, ops_of(normOps));
    call.xDesc = xDesc, call.zDesc = zDesc, call.yDesc = yDesc;
    call.scaleBiasDesc = normScaleBiasDesc, call.meanVarDesc = normMeanVarDesc;
    call.activationDesc = activationDesc;
    return norm::forward_workspace(handle, call, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnGetNormalizationBackwardWorkspaceSize(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo,
    const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t yDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnTensorDescriptor_t dzDesc, const gpudnnTensorDescriptor_t dxDesc,
    const gpudnnTensorDescriptor_t dNormScaleBiasDesc, const gpudnnActivationDescriptor_t activationDesc,
    const gpudnnTensorDescriptor_t normMeanVarDesc, size_t* sizeInBytes, int groupCnt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_choices(mode, algo, groupCnt));
    norm::BackwardCall call;
    call.names = &norm::kNormBackwardNames;
    call.set(mode == GPUDNN_NORM_PER_ACTIVATION, ops_of(normOps));
    call.xDesc = xDesc, call.yDesc = yDesc, call.dyDesc = dyDesc, call.dzDesc = dzDesc, call.dxDesc = dxDesc;
    call.scaleBiasDesc = dNormScaleBiasDesc, call.meanVarDesc = normMeanVarDesc;
    call.activationDesc = activationDesc;
    return norm::backward_workspace(handle, call, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnGetNormalizationTrainingReserveSpaceSize(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo,
    const gpudnnActivationDescriptor_t activationDesc, const gpudnnTensorDescriptor_t xDesc, size_t* sizeInBytes,
    int groupCnt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_choices(mode, algo, groupCnt));
    norm::ForwardCall call;
    call.set(norm::Pass::train, mode == GPUDNN_NORM_PER_ACTIVATION, ops_of(normOps));
    call.xDesc = xDesc;
    call.activationDesc = activationDesc;
    return norm::reserve_size(handle, call, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnNormalizationForwardTraining(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo, const void* alpha,
    const void* beta, const gpudnnTensorDescriptor_t xDesc, const void* xData,
    const gpudnnTensorDescriptor_t normScaleBiasDesc, const void* normScale, const void* normBias,
    double exponentialAverageFactor, const gpudnnTensorDescriptor_t normMeanVarDesc, void* resultRunningMean,
    void* resultRunningVariance, double epsilon, void* resultSaveMean, void* resultSaveInvVariance,
    gpudnnActivationDescriptor_t activationDesc, const gpudnnTensorDescriptor_t zDesc, const void* zData,
    const gpudnnTensorDescriptor_t yDesc, void* yData, void* workspace, size_t workSpaceSizeInBytes, void* reserveSpace,
    size_t reserveSpaceSizeInBytes, int groupCnt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_choices(mode, algo, groupCnt));
    norm::ForwardCall call;
    call.names = &norm::kNormNames;
    call.set(norm::Pass::train, mode == GPUDNN_NORM_PER_ACTIVATION, ops_of(normOps));
    call.alpha = alpha, call.beta = beta;
    call.xDesc = xDesc, call.x = xData, call.zDesc = zDesc, call.z = zData, call.yDesc = yDesc, call.y = yData;
    call.scaleBiasDesc = normScaleBiasDesc, call.meanVarDesc = normMeanVarDesc;
    call.scale = normScale, call.bias = normBias;
    call.factor = exponentialAverageFactor;
    call.runningMean = resultRunningMean, call.runningVariance = resultRunningVariance;
    call.epsilon = epsilon;
    call.saveMean = resultSaveMean, call.saveInvVariance = resultSaveInvVariance;
    call.activationDesc = activationDesc;
    call.memory = {workspace, workSpaceSizeInBytes, reserveSpace, reserveSpaceSizeInBytes};
    return norm::run_forward(handle, call);
  });
}

extern "C" gpudnnStatus_t gpudnnNormalizationBackward(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo,
    const void* alphaDataDiff, const void* betaDataDiff, const void* alphaParamDiff, const void* betaParamDiff,
    const gpudnnTensorDescriptor_t xDesc, const void* xData, const gpudnnTensorDescriptor_t yDesc, const void* yData,
    const gpudnnTensorDescriptor_t dyDesc, const void* dyData, const gpudnnTensorDescriptor_t dzDesc, void* dzData,
    const gpudnnTensorDescriptor_t dxDesc, void* dxData, const gpudnnTensorDescriptor_t dNormScaleBiasDesc,
    const void* normScaleData, const void* normBiasData, void* dNormScaleData, void* dNormBiasData, double epsilon,
    const gpudnnTensorDescriptor_t normMeanVarDesc, const void* savedMean, const void* savedInvVariance,
    gpudnnActivationDescriptor_t activationDesc, void* workSpace, size_t workSpaceSizeInBytes, void* reserveSpace,
    size_t reserveSpaceSizeInBytes, int groupCnt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_choices(mode, algo, groupCnt));
    (void)yData, (void)normBiasData;  // the reserve space holds what backward needs of them
    norm::BackwardCall call;
    call.names = &norm::kNormBackwardNames;
    call.set(mode == GPUDNN_NORM_PER_ACTIVATION, ops_of(normOps));
    call.alphaData = alphaDataDiff, call.betaData = betaDataDiff;
    call.alphaParam = alphaParamDiff, call.betaParam = betaParamDiff;
    call.xDesc = xDesc, call.x = xData, call.yDesc = yDesc, call.dyDesc = dyDesc, call.dy = dyData;
    call.dzDesc = dzDesc, call.dz = dzData, call.dxDesc = dxDesc, call.dx = dxData;
    call.scaleBiasDesc = dNormScaleBiasDesc, call.meanVarDesc = normMeanVarDesc;
    call.scale = normScaleData, call.dScale = dNormScaleData, call.dBias = dNormBiasData;
    call.epsilon = epsilon;
    call.savedMean = savedMean, call.savedInvVariance = savedInvVariance;
    call.activationDesc = activationDesc;
    call.memory = {workSpace, workSpaceSizeInBytes, reserveSpace, reserveSpaceSizeInBytes};
    return norm::run_backward(handle, call);
  });
}
