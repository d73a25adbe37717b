// Entry points of batch normalization.
// SPDX-License-Identifier: Apache-2.0
#include "api/norm_call.hpp"

using namespace gpudnn;

namespace {

Status check_mode(gpudnnBatchNormMode_t mode) {
  return check_enum(mode, GPUDNN_BATCHNORM_PER_ACTIVATION, GPUDNN_BATCHNORM_SPATIAL_PERSISTENT, "mode");
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnDeriveBNTensorDescriptor(gpudnnTensorDescriptor_t derivedBnDesc,
                                                         const gpudnnTensorDescriptor_t xDesc,
                                                         gpudnnBatchNormMode_t mode) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(derivedBnDesc, Kind::tensor);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_TRY(check_mode(mode));
    GPUDNN_TRY(norm::check_input(xDesc));
    derivedBnDesc->geometry = norm::parameter_geometry(xDesc->geometry, mode == GPUDNN_BATCHNORM_PER_ACTIVATION);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnBatchNormalizationForwardInference(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const gpudnnTensorDescriptor_t xDesc, const void* x, const gpudnnTensorDescriptor_t yDesc, void* y,
    const gpudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale, const void* bnBias,
    const void* estimatedMean, const void* estimatedVariance, double epsilon) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_mode(mode));
    norm::ForwardCall call;
    call.set(norm::Pass::infer, mode == GPUDNN_BATCHNORM_PER_ACTIVATION, GPUDNN_BATCHNORM_OPS_BN);
    call.alpha = alpha, call.beta = beta;
    call.xDesc = xDesc, call.x = x, call.yDesc = yDesc, call.y = y;
    call.scaleBiasDesc = call.meanVarDesc = bnScaleBiasMeanVarDesc;
    call.scale = bnScale, call.bias = bnBias;
    call.estimatedMean = estimatedMean, call.estimatedVariance = estimatedVariance;
    call.epsilon = epsilon;
    return norm::run_forward(handle, call);
  });
}

extern "C" gpudnnStatus_t gpudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps, const gpudnnTensorDescriptor_t xDesc,
    const gpudnnTensorDescriptor_t zDesc, const gpudnnTensorDescriptor_t yDesc,
    const gpudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const gpudnnActivationDescriptor_t activationDesc,
    size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_mode(mode));
    norm::ForwardCall call;
    call.set(norm::Pass::train, mode == GPUDNN_BATCHNORM_PER_ACTIVATION, bnOps);
    call.xDesc = xDesc, call.zDesc = zDesc, call.yDesc = yDesc;
    call.scaleBiasDesc = call.meanVarDesc = bnScaleBiasMeanVarDesc;
    call.activationDesc = activationDesc;
    return norm::forward_workspace(handle, call, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnGetBatchNormalizationBackwardExWorkspaceSize(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps, const gpudnnTensorDescriptor_t xDesc,
    const gpudnnTensorDescriptor_t yDesc, const gpudnnTensorDescriptor_t dyDesc, const gpudnnTensorDescriptor_t dzDesc,
    const gpudnnTensorDescriptor_t dxDesc, const gpudnnTensorDescriptor_t dBnScaleBiasDesc,
    const gpudnnActivationDescriptor_t activationDesc, size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_mode(mode));
    norm::BackwardCall call;
    call.set(mode == GPUDNN_BATCHNORM_PER_ACTIVATION, bnOps);
    call.xDesc = xDesc, call.yDesc = yDesc, call.dyDesc = dyDesc, call.dzDesc = dzDesc, call.dxDesc = dxDesc;
    call.scaleBiasDesc = call.meanVarDesc = dBnScaleBiasDesc;
    call.activationDesc = activationDesc;
    return norm::backward_workspace(handle, call, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps,
    const gpudnnActivationDescriptor_t activationDesc, const gpudnnTensorDescriptor_t xDesc, size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_mode(mode));
    norm::ForwardCall call;
    call.set(norm::Pass::train, mode == GPUDNN_BATCHNORM_PER_ACTIVATION, bnOps);
    call.xDesc = xDesc;
    call.activationDesc = activationDesc;
    return norm::reserve_size(handle, call, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnBatchNormalizationForwardTraining(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const gpudnnTensorDescriptor_t xDesc, const void* x, const gpudnnTensorDescriptor_t yDesc, void* y,
    const gpudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale, const void* bnBias,
    double exponentialAverageFactor, void* resultRunningMean, void* resultRunningVariance, double epsilon,
    void* resultSaveMean, void* resultSaveInvVariance) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_mode(mode));
    norm::ForwardCall call;
    call.set(norm::Pass::train, mode == GPUDNN_BATCHNORM_PER_ACTIVATION, GPUDNN_BATCHNORM_OPS_BN);
    call.alpha = alpha, call.beta = beta;
    call.xDesc = xDesc, call.x = x, call.yDesc = yDesc, call.y = y;
    call.scaleBiasDesc = call.meanVarDesc = bnScaleBiasMeanVarDesc;
    call.scale = bnScale, call.bias = bnBias;
    call.factor = exponentialAverageFactor;
    call.runningMean = resultRunningMean, call.runningVariance = resultRunningVariance;
    call.epsilon = epsilon;
    call.saveMean = resultSaveMean, call.saveInvVariance = resultSaveInvVariance;
    return norm::run_forward(handle, call);
  });
}

extern "C" gpudnnStatus_t gpudnnBatchNormalizationForwardTrainingEx(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps, const void* alpha, const void* beta,
    const gpudnnTensorDescriptor_t xDesc, const void* xData, const gpudnnTensorDescriptor_t zDesc, const void* zData,
    const gpudnnTensorDescriptor_t yDesc, void* yData, const gpudnnTensorDescriptor_t bnScaleBiasMeanVarDesc,
    const void* bnScale, const void* bnBias, double exponentialAverageFactor, void* resultRunningMean,
    void* resultRunningVariance, double epsilon, void* resultSaveMean, void* resultSaveInvVariance,
    gpudnnActivationDescriptor_t activationDesc, void* workspace, size_t workSpaceSizeInBytes, void* reserveSpace,
    size_t reserveSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_mode(mode));
    norm::ForwardCall call;
    call.names = &norm::kBatchNormExNames;
    call.set(norm::Pass::train, mode == GPUDNN_BATCHNORM_PER_ACTIVATION, bnOps);
    call.alpha = alpha, call.beta = beta;
    call.xDesc = xDesc, call.x = xData, call.zDesc = zDesc, call.z = zData, call.yDesc = yDesc, call.y = yData;
    call.scaleBiasDesc = call.meanVarDesc = bnScaleBiasMeanVarDesc;
    call.scale = bnScale, call.bias = bnBias;
    call.factor = exponentialAverageFactor;
    call.runningMean = resultRunningMean, call.runningVariance = resultRunningVariance;
    call.epsilon = epsilon;
    call.saveMean = resultSaveMean, call.saveInvVariance = resultSaveInvVariance;
    call.activationDesc = activationDesc;
    call.memory = {workspace, workSpaceSizeInBytes, reserveSpace, reserveSpaceSizeInBytes};
    return norm::run_forward(handle, call);
  });
}

extern "C" gpudnnStatus_t gpudnnBatchNormalizationBackward(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, const void* alphaDataDiff, const void* betaDataDiff,
    const void* alphaParamDiff, const void* betaParamDiff, const gpudnnTensorDescriptor_t xDesc, const void* x,
    const gpudnnTensorDescriptor_t dyDesc, const void* dy, const gpudnnTensorDescriptor_t dxDesc, void* dx,
    const gpudnnTensorDescriptor_t dBnScaleBiasDesc, const void* bnScale, void* dBnScaleResult, void* dBnBiasResult,
    double epsilon, const void* savedMean, const void* savedInvVariance) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_mode(mode));
    norm::BackwardCall call;
    call.set(mode == GPUDNN_BATCHNORM_PER_ACTIVATION, GPUDNN_BATCHNORM_OPS_BN);
    call.alphaData = alphaDataDiff, call.betaData = betaDataDiff;
    call.alphaParam = alphaParamDiff, call.betaParam = betaParamDiff;
    call.xDesc = xDesc, call.x = x, call.dyDesc = dyDesc, call.dy = dy, call.dxDesc = dxDesc, call.dx = dx;
    call.scaleBiasDesc = call.meanVarDesc = dBnScaleBiasDesc;
    call.scale = bnScale, call.dScale = dBnScaleResult, call.dBias = dBnBiasResult;
    call.epsilon = epsilon;
    call.savedMean = savedMean, call.savedInvVariance = savedInvVariance;
    return norm::run_backward(handle, call);
  });
}

extern "C" gpudnnStatus_t gpudnnBatchNormalizationBackwardEx(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps, const void* alphaDataDiff,
    const void* betaDataDiff, const void* alphaParamDiff, const void* betaParamDiff,
    const gpudnnTensorDescriptor_t xDesc, const void* xData, const gpudnnTensorDescriptor_t yDesc, const void* yData,
    const gpudnnTensorDescriptor_t dyDesc, const void* dyData, const gpudnnTensorDescriptor_t dzDesc, void* dzData,
    const gpudnnTensorDescriptor_t dxDesc, void* dxData, const gpudnnTensorDescriptor_t dBnScaleBiasDesc,
    const void* bnScaleData, const void* bnBiasData, void* dBnScaleData, void* dBnBiasData, double epsilon,
    const void* savedMean, const void* savedInvVariance, gpudnnActivationDescriptor_t activationDesc, void* workSpace,
    size_t workSpaceSizeInBytes, void* reserveSpace, size_t reserveSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_mode(mode));
    (void)yData, (void)bnBiasData;  // the reserve space holds what backward needs of them
    norm::BackwardCall call;
    call.names = &norm::kBatchNormBackwardExNames;
    call.set(mode == GPUDNN_BATCHNORM_PER_ACTIVATION, bnOps);
    call.alphaData = alphaDataDiff, call.betaData = betaDataDiff;
    call.alphaParam = alphaParamDiff, call.betaParam = betaParamDiff;
    call.xDesc = xDesc, call.x = xData, call.yDesc = yDesc, call.dyDesc = dyDesc, call.dy = dyData;
    call.dzDesc = dzDesc, call.dz = dzData, call.dxDesc = dxDesc, call.dx = dxData;
    call.scaleBiasDesc = call.meanVarDesc = dBnScaleBiasDesc;
    call.scale = bnScaleData, call.dScale = dBnScaleData, call.dBias = dBnBiasData;
    call.epsilon = epsilon;
    call.savedMean = savedMean, call.savedInvVariance = savedInvVariance;
    call.activationDesc = activationDesc;
    call.memory = {workSpace, workSpaceSizeInBytes, reserveSpace, reserveSpaceSizeInBytes};
    return norm::run_backward(handle, call);
  });
}
