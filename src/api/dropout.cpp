// Entry points of dropout.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/ops.h"

extern "C" {

gpudnnStatus_t gpudnnCreateDropoutDescriptor(gpudnnDropoutDescriptor_t*) {
  return gpudnn::not_built(__func__, "dropout calls");
}

gpudnnStatus_t gpudnnDestroyDropoutDescriptor(gpudnnDropoutDescriptor_t) {
  return gpudnn::not_built(__func__, "dropout calls");
}

gpudnnStatus_t gpudnnDropoutGetStatesSize(gpudnnHandle_t, size_t*) {
  return gpudnn::not_built(__func__, "dropout calls");
}

gpudnnStatus_t gpudnnDropoutGetReserveSpaceSize(gpudnnTensorDescriptor_t, size_t*) {
  return gpudnn::not_built(__func__, "dropout calls");
}

gpudnnStatus_t gpudnnSetDropoutDescriptor(gpudnnDropoutDescriptor_t, gpudnnHandle_t, float, void*, size_t,
                                          unsigned long long) {
  return gpudnn::not_built(__func__, "dropout calls");
}

gpudnnStatus_t gpudnnRestoreDropoutDescriptor(gpudnnDropoutDescriptor_t, gpudnnHandle_t, float, void*, size_t,
                                              unsigned long long) {
  return gpudnn::not_built(__func__, "dropout calls");
}

gpudnnStatus_t gpudnnGetDropoutDescriptor(gpudnnDropoutDescriptor_t, gpudnnHandle_t, float*, void**,
                                          unsigned long long*) {
  return gpudnn::not_built(__func__, "dropout calls");
}

gpudnnStatus_t gpudnnDropoutForward(gpudnnHandle_t, const gpudnnDropoutDescriptor_t, const gpudnnTensorDescriptor_t,
                                    const void*, const gpudnnTensorDescriptor_t, void*, void*, size_t) {
  return gpudnn::not_built(__func__, "dropout calls");
}

gpudnnStatus_t gpudnnDropoutBackward(gpudnnHandle_t, const gpudnnDropoutDescriptor_t, const gpudnnTensorDescriptor_t,
                                     const void*, const gpudnnTensorDescriptor_t, void*, void*, size_t) {
  return gpudnn::not_built(__func__, "dropout calls");
}

}  // extern "C"
