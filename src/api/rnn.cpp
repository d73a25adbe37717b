// Entry points of recurrent networks.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/adv.h"

extern "C" {

gpudnnStatus_t gpudnnCreateRNNDescriptor(gpudnnRNNDescriptor_t*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnDestroyRNNDescriptor(gpudnnRNNDescriptor_t) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnSetRNNDescriptor_v8(gpudnnRNNDescriptor_t, gpudnnRNNAlgo_t, gpudnnRNNMode_t, gpudnnRNNBiasMode_t,
                                         gpudnnDirectionMode_t, gpudnnRNNInputMode_t, gpudnnDataType_t,
                                         gpudnnDataType_t, gpudnnMathType_t, int32_t, int32_t, int32_t, int32_t,
                                         gpudnnDropoutDescriptor_t, uint32_t) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnGetRNNDescriptor_v8(gpudnnRNNDescriptor_t, gpudnnRNNAlgo_t*, gpudnnRNNMode_t*,
                                         gpudnnRNNBiasMode_t*, gpudnnDirectionMode_t*, gpudnnRNNInputMode_t*,
                                         gpudnnDataType_t*, gpudnnDataType_t*, gpudnnMathType_t*, int32_t*, int32_t*,
                                         int32_t*, int32_t*, gpudnnDropoutDescriptor_t*, uint32_t*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnRNNSetClip_v8(gpudnnRNNDescriptor_t, gpudnnRNNClipMode_t, gpudnnNanPropagation_t, double, double) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnRNNSetClip_v9(gpudnnRNNDescriptor_t, gpudnnRNNClipMode_t, double, double) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnRNNGetClip_v8(gpudnnRNNDescriptor_t, gpudnnRNNClipMode_t*, gpudnnNanPropagation_t*, double*,
                                   double*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnRNNGetClip_v9(gpudnnRNNDescriptor_t, gpudnnRNNClipMode_t*, double*, double*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnBuildRNNDynamic(gpudnnHandle_t, gpudnnRNNDescriptor_t, int) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnGetRNNTempSpaceSizes(gpudnnHandle_t, gpudnnRNNDescriptor_t, gpudnnForwardMode_t,
                                          gpudnnRNNDataDescriptor_t, size_t*, size_t*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnGetRNNWeightSpaceSize(gpudnnHandle_t, gpudnnRNNDescriptor_t, size_t*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnGetRNNWeightParams(gpudnnHandle_t, gpudnnRNNDescriptor_t, int32_t, size_t, const void*, int32_t,
                                        gpudnnTensorDescriptor_t, void**, gpudnnTensorDescriptor_t, void**) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnCreateRNNDataDescriptor(gpudnnRNNDataDescriptor_t*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnDestroyRNNDataDescriptor(gpudnnRNNDataDescriptor_t) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnSetRNNDataDescriptor(gpudnnRNNDataDescriptor_t, gpudnnDataType_t, gpudnnRNNDataLayout_t, int, int,
                                          int, const int[], void*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnGetRNNDataDescriptor(gpudnnRNNDataDescriptor_t, gpudnnDataType_t*, gpudnnRNNDataLayout_t*, int*,
                                          int*, int*, int, int[], void*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnRNNForward(gpudnnHandle_t, gpudnnRNNDescriptor_t, gpudnnForwardMode_t, const int32_t[],
                                gpudnnRNNDataDescriptor_t, const void*, gpudnnRNNDataDescriptor_t, void*,
                                gpudnnTensorDescriptor_t, const void*, void*, gpudnnTensorDescriptor_t, const void*,
                                void*, size_t, const void*, size_t, void*, size_t, void*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnRNNBackwardData_v8(gpudnnHandle_t, gpudnnRNNDescriptor_t, const int32_t[],
                                        gpudnnRNNDataDescriptor_t, const void*, const void*, gpudnnRNNDataDescriptor_t,
                                        void*, gpudnnTensorDescriptor_t, const void*, const void*, void*,
                                        gpudnnTensorDescriptor_t, const void*, const void*, void*, size_t, const void*,
                                        size_t, void*, size_t, void*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

gpudnnStatus_t gpudnnRNNBackwardWeights_v8(gpudnnHandle_t, gpudnnRNNDescriptor_t, gpudnnWgradMode_t, const int32_t[],
                                           gpudnnRNNDataDescriptor_t, const void*, gpudnnTensorDescriptor_t,
                                           const void*, gpudnnRNNDataDescriptor_t, const void*, size_t, void*, size_t,
                                           void*, size_t, void*) {
  return gpudnn::not_built(__func__, "recurrent networks");
}

}  // extern "C"
