// Entry points of local response normalization and divisive normalization.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/ops.h"

extern "C" {

gpudnnStatus_t gpudnnCreateLRNDescriptor(gpudnnLRNDescriptor_t*) {
  return gpudnn::not_built(__func__, "local response and divisive normalization");
}

gpudnnStatus_t gpudnnSetLRNDescriptor(gpudnnLRNDescriptor_t, unsigned, double, double, double) {
  return gpudnn::not_built(__func__, "local response and divisive normalization");
}

gpudnnStatus_t gpudnnGetLRNDescriptor(gpudnnLRNDescriptor_t, unsigned*, double*, double*, double*) {
  return gpudnn::not_built(__func__, "local response and divisive normalization");
}

gpudnnStatus_t gpudnnDestroyLRNDescriptor(gpudnnLRNDescriptor_t) {
  return gpudnn::not_built(__func__, "local response and divisive normalization");
}

gpudnnStatus_t gpudnnLRNCrossChannelForward(gpudnnHandle_t, gpudnnLRNDescriptor_t, gpudnnLRNMode_t, const void*,
                                            const gpudnnTensorDescriptor_t, const void*, const void*,
                                            const gpudnnTensorDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "local response and divisive normalization");
}

gpudnnStatus_t gpudnnDivisiveNormalizationForward(gpudnnHandle_t, gpudnnLRNDescriptor_t, gpudnnDivNormMode_t,
                                                  const void*, const gpudnnTensorDescriptor_t, const void*, const void*,
                                                  void*, void*, const void*, const gpudnnTensorDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "local response and divisive normalization");
}

gpudnnStatus_t gpudnnLRNCrossChannelBackward(gpudnnHandle_t, gpudnnLRNDescriptor_t, gpudnnLRNMode_t, const void*,
                                             const gpudnnTensorDescriptor_t, const void*,
                                             const gpudnnTensorDescriptor_t, const void*,
                                             const gpudnnTensorDescriptor_t, const void*, const void*,
                                             const gpudnnTensorDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "local response and divisive normalization");
}

gpudnnStatus_t gpudnnDivisiveNormalizationBackward(gpudnnHandle_t, gpudnnLRNDescriptor_t, gpudnnDivNormMode_t,
                                                   const void*, const gpudnnTensorDescriptor_t, const void*,
                                                   const void*, const void*, void*, void*, const void*,
                                                   const gpudnnTensorDescriptor_t, void*, void*) {
  return gpudnn::not_built(__func__, "local response and divisive normalization");
}

}  // extern "C"
