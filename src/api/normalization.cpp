// Entry points of the per-channel and per-activation normalization calls that generalise batch normalization.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/ops.h"

extern "C" {

gpudnnStatus_t gpudnnDeriveNormTensorDescriptor(gpudnnTensorDescriptor_t, gpudnnTensorDescriptor_t,
                                                const gpudnnTensorDescriptor_t, gpudnnNormMode_t, int) {
  return gpudnn::not_built(__func__, "normalization calls");
}

gpudnnStatus_t gpudnnNormalizationForwardInference(gpudnnHandle_t, gpudnnNormMode_t, gpudnnNormOps_t, gpudnnNormAlgo_t,
                                                   const void*, const void*, const gpudnnTensorDescriptor_t,
                                                   const void*, const gpudnnTensorDescriptor_t, const void*,
                                                   const void*, const gpudnnTensorDescriptor_t, const void*,
                                                   const void*, const gpudnnTensorDescriptor_t, const void*,
                                                   gpudnnActivationDescriptor_t, const gpudnnTensorDescriptor_t, void*,
                                                   double, int) {
  return gpudnn::not_built(__func__, "normalization calls");
}

gpudnnStatus_t gpudnnGetNormalizationForwardTrainingWorkspaceSize(
    gpudnnHandle_t, gpudnnNormMode_t, gpudnnNormOps_t, gpudnnNormAlgo_t, const gpudnnTensorDescriptor_t,
    const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t,
    const gpudnnActivationDescriptor_t, const gpudnnTensorDescriptor_t, size_t*, int) {
  return gpudnn::not_built(__func__, "normalization calls");
}

gpudnnStatus_t gpudnnGetNormalizationBackwardWorkspaceSize(
    gpudnnHandle_t, gpudnnNormMode_t, gpudnnNormOps_t, gpudnnNormAlgo_t, const gpudnnTensorDescriptor_t,
    const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t,
    const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t, const gpudnnActivationDescriptor_t,
    const gpudnnTensorDescriptor_t, size_t*, int) {
  return gpudnn::not_built(__func__, "normalization calls");
}

gpudnnStatus_t gpudnnGetNormalizationTrainingReserveSpaceSize(gpudnnHandle_t, gpudnnNormMode_t, gpudnnNormOps_t,
                                                              gpudnnNormAlgo_t, const gpudnnActivationDescriptor_t,
                                                              const gpudnnTensorDescriptor_t, size_t*, int) {
  return gpudnn::not_built(__func__, "normalization calls");
}

gpudnnStatus_t gpudnnNormalizationForwardTraining(gpudnnHandle_t, gpudnnNormMode_t, gpudnnNormOps_t, gpudnnNormAlgo_t,
                                                  const void*, const void*, const gpudnnTensorDescriptor_t, const void*,
                                                  const gpudnnTensorDescriptor_t, const void*, const void*, double,
                                                  const gpudnnTensorDescriptor_t, void*, void*, double, void*, void*,
                                                  gpudnnActivationDescriptor_t, const gpudnnTensorDescriptor_t,
                                                  const void*, const gpudnnTensorDescriptor_t, void*, void*, size_t,
                                                  void*, size_t, int) {
  return gpudnn::not_built(__func__, "normalization calls");
}

gpudnnStatus_t gpudnnNormalizationBackward(gpudnnHandle_t, gpudnnNormMode_t, gpudnnNormOps_t, gpudnnNormAlgo_t,
                                           const void*, const void*, const void*, const void*,
                                           const gpudnnTensorDescriptor_t, const void*, const gpudnnTensorDescriptor_t,
                                           const void*, const gpudnnTensorDescriptor_t, const void*,
                                           const gpudnnTensorDescriptor_t, void*, const gpudnnTensorDescriptor_t, void*,
                                           const gpudnnTensorDescriptor_t, const void*, const void*, void*, void*,
                                           double, const gpudnnTensorDescriptor_t, const void*, const void*,
                                           gpudnnActivationDescriptor_t, void*, size_t, void*, size_t, int) {
  return gpudnn::not_built(__func__, "normalization calls");
}

}  // extern "C"
