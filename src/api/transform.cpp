// Entry points of tensor transform descriptors and the calls that use them.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/ops.h"

extern "C" {

gpudnnStatus_t gpudnnInitTransformDest(const gpudnnTensorTransformDescriptor_t, const gpudnnTensorDescriptor_t,
                                       gpudnnTensorDescriptor_t, size_t*) {
  return gpudnn::not_built(__func__, "tensor and filter transforms");
}

gpudnnStatus_t gpudnnCreateTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t*) {
  return gpudnn::not_built(__func__, "tensor and filter transforms");
}

gpudnnStatus_t gpudnnSetTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t, const uint32_t,
                                                  const gpudnnTensorFormat_t, const int32_t[], const int32_t[],
                                                  const uint32_t[], const gpudnnFoldingDirection_t) {
  return gpudnn::not_built(__func__, "tensor and filter transforms");
}

gpudnnStatus_t gpudnnGetTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t, uint32_t, gpudnnTensorFormat_t*,
                                                  int32_t[], int32_t[], uint32_t[], gpudnnFoldingDirection_t*) {
  return gpudnn::not_built(__func__, "tensor and filter transforms");
}

gpudnnStatus_t gpudnnDestroyTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t) {
  return gpudnn::not_built(__func__, "tensor and filter transforms");
}

gpudnnStatus_t gpudnnTransformTensorEx(gpudnnHandle_t, const gpudnnTensorTransformDescriptor_t, const void*,
                                       const gpudnnTensorDescriptor_t, const void*, const void*,
                                       const gpudnnTensorDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "tensor and filter transforms");
}

gpudnnStatus_t gpudnnTransformFilter(gpudnnHandle_t, const gpudnnTensorTransformDescriptor_t, const void*,
                                     const gpudnnFilterDescriptor_t, const void*, const void*,
                                     const gpudnnFilterDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "tensor and filter transforms");
}

}  // extern "C"
