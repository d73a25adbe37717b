// Entry points of connectionist temporal classification loss.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/adv.h"

extern "C" {

gpudnnStatus_t gpudnnCreateCTCLossDescriptor(gpudnnCTCLossDescriptor_t*) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnSetCTCLossDescriptor(gpudnnCTCLossDescriptor_t, gpudnnDataType_t) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnSetCTCLossDescriptorEx(gpudnnCTCLossDescriptor_t, gpudnnDataType_t, gpudnnLossNormalizationMode_t,
                                            gpudnnNanPropagation_t) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnSetCTCLossDescriptor_v8(gpudnnCTCLossDescriptor_t, gpudnnDataType_t, gpudnnLossNormalizationMode_t,
                                             gpudnnNanPropagation_t, int) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnSetCTCLossDescriptor_v9(gpudnnCTCLossDescriptor_t, gpudnnDataType_t, gpudnnLossNormalizationMode_t,
                                             gpudnnCTCGradMode_t, int) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnGetCTCLossDescriptor(gpudnnCTCLossDescriptor_t, gpudnnDataType_t*) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnGetCTCLossDescriptorEx(gpudnnCTCLossDescriptor_t, gpudnnDataType_t*,
                                            gpudnnLossNormalizationMode_t*, gpudnnNanPropagation_t*) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnGetCTCLossDescriptor_v8(gpudnnCTCLossDescriptor_t, gpudnnDataType_t*,
                                             gpudnnLossNormalizationMode_t*, gpudnnNanPropagation_t*, int*) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnGetCTCLossDescriptor_v9(gpudnnCTCLossDescriptor_t, gpudnnDataType_t*,
                                             gpudnnLossNormalizationMode_t*, gpudnnCTCGradMode_t*, int*) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnDestroyCTCLossDescriptor(gpudnnCTCLossDescriptor_t) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnCTCLoss(gpudnnHandle_t, const gpudnnTensorDescriptor_t, const void*, const int[], const int[],
                             const int[], void*, const gpudnnTensorDescriptor_t, void*, gpudnnCTCLossAlgo_t,
                             gpudnnCTCLossDescriptor_t, void*, size_t) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnCTCLoss_v8(gpudnnHandle_t, gpudnnCTCLossAlgo_t, gpudnnCTCLossDescriptor_t,
                                const gpudnnTensorDescriptor_t, const void*, const int[], const int[], const int[],
                                void*, const gpudnnTensorDescriptor_t, void*, size_t, void*) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnGetCTCLossWorkspaceSize(gpudnnHandle_t, const gpudnnTensorDescriptor_t,
                                             const gpudnnTensorDescriptor_t, const int*, const int*, const int*,
                                             gpudnnCTCLossAlgo_t, gpudnnCTCLossDescriptor_t, size_t*) {
  return gpudnn::not_built(__func__, "CTC losses");
}

gpudnnStatus_t gpudnnGetCTCLossWorkspaceSize_v8(gpudnnHandle_t, gpudnnCTCLossAlgo_t, gpudnnCTCLossDescriptor_t,
                                                const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t,
                                                size_t*) {
  return gpudnn::not_built(__func__, "CTC losses");
}

}  // extern "C"
