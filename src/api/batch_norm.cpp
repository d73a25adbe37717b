// Entry points of batch normalization.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/ops.h"

extern "C" {

gpudnnStatus_t gpudnnDeriveBNTensorDescriptor(gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t,
                                              gpudnnBatchNormMode_t) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

gpudnnStatus_t gpudnnBatchNormalizationForwardInference(gpudnnHandle_t, gpudnnBatchNormMode_t, const void*, const void*,
                                                        const gpudnnTensorDescriptor_t, const void*,
                                                        const gpudnnTensorDescriptor_t, void*,
                                                        const gpudnnTensorDescriptor_t, const void*, const void*,
                                                        const void*, const void*, double) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

gpudnnStatus_t gpudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    gpudnnHandle_t, gpudnnBatchNormMode_t, gpudnnBatchNormOps_t, const gpudnnTensorDescriptor_t,
    const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t,
    const gpudnnActivationDescriptor_t, size_t*) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

gpudnnStatus_t gpudnnGetBatchNormalizationBackwardExWorkspaceSize(
    gpudnnHandle_t, gpudnnBatchNormMode_t, gpudnnBatchNormOps_t, const gpudnnTensorDescriptor_t,
    const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t,
    const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t, const gpudnnActivationDescriptor_t, size_t*) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

gpudnnStatus_t gpudnnGetBatchNormalizationTrainingExReserveSpaceSize(gpudnnHandle_t, gpudnnBatchNormMode_t,
                                                                     gpudnnBatchNormOps_t,
                                                                     const gpudnnActivationDescriptor_t,
                                                                     const gpudnnTensorDescriptor_t, size_t*) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

gpudnnStatus_t gpudnnBatchNormalizationForwardTraining(gpudnnHandle_t, gpudnnBatchNormMode_t, const void*, const void*,
                                                       const gpudnnTensorDescriptor_t, const void*,
                                                       const gpudnnTensorDescriptor_t, void*,
                                                       const gpudnnTensorDescriptor_t, const void*, const void*, double,
                                                       void*, void*, double, void*, void*) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

gpudnnStatus_t gpudnnBatchNormalizationForwardTrainingEx(gpudnnHandle_t, gpudnnBatchNormMode_t, gpudnnBatchNormOps_t,
                                                         const void*, const void*, const gpudnnTensorDescriptor_t,
                                                         const void*, const gpudnnTensorDescriptor_t, const void*,
                                                         const gpudnnTensorDescriptor_t, void*,
                                                         const gpudnnTensorDescriptor_t, const void*, const void*,
                                                         double, void*, void*, double, void*, void*,
                                                         gpudnnActivationDescriptor_t, void*, size_t, void*, size_t) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

gpudnnStatus_t gpudnnBatchNormalizationBackward(gpudnnHandle_t, gpudnnBatchNormMode_t, const void*, const void*,
                                                const void*, const void*, const gpudnnTensorDescriptor_t, const void*,
                                                const gpudnnTensorDescriptor_t, const void*,
                                                const gpudnnTensorDescriptor_t, void*, const gpudnnTensorDescriptor_t,
                                                const void*, void*, void*, double, const void*, const void*) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

gpudnnStatus_t gpudnnBatchNormalizationBackwardEx(
    gpudnnHandle_t, gpudnnBatchNormMode_t, gpudnnBatchNormOps_t, const void*, const void*, const void*, const void*,
    const gpudnnTensorDescriptor_t, const void*, const gpudnnTensorDescriptor_t, const void*,
    const gpudnnTensorDescriptor_t, const void*, const gpudnnTensorDescriptor_t, void*, const gpudnnTensorDescriptor_t,
    void*, const gpudnnTensorDescriptor_t, const void*, const void*, void*, void*, double, const void*, const void*,
    gpudnnActivationDescriptor_t, void*, size_t, void*, size_t) {
  return gpudnn::not_built(__func__, "batch normalization calls");
}

}  // extern "C"
