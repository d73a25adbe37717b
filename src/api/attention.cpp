// Entry points of multi-head attention and its sequence data descriptors.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/adv.h"

extern "C" {

gpudnnStatus_t gpudnnCreateSeqDataDescriptor(gpudnnSeqDataDescriptor_t*) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnDestroySeqDataDescriptor(gpudnnSeqDataDescriptor_t) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnSetSeqDataDescriptor(gpudnnSeqDataDescriptor_t, gpudnnDataType_t, int, const int[],
                                          const gpudnnSeqDataAxis_t[], size_t, const int[], void*) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnGetSeqDataDescriptor(const gpudnnSeqDataDescriptor_t, gpudnnDataType_t*, int*, int, int[],
                                          gpudnnSeqDataAxis_t[], size_t*, size_t, int[], void*) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnCreateAttnDescriptor(gpudnnAttnDescriptor_t*) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnDestroyAttnDescriptor(gpudnnAttnDescriptor_t) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnSetAttnDescriptor(gpudnnAttnDescriptor_t, unsigned, int, double, gpudnnDataType_t,
                                       gpudnnDataType_t, gpudnnMathType_t, gpudnnDropoutDescriptor_t,
                                       gpudnnDropoutDescriptor_t, int, int, int, int, int, int, int, int, int, int,
                                       int) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnGetAttnDescriptor(gpudnnAttnDescriptor_t, unsigned*, int*, double*, gpudnnDataType_t*,
                                       gpudnnDataType_t*, gpudnnMathType_t*, gpudnnDropoutDescriptor_t*,
                                       gpudnnDropoutDescriptor_t*, int*, int*, int*, int*, int*, int*, int*, int*, int*,
                                       int*, int*) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnGetMultiHeadAttnBuffers(gpudnnHandle_t, const gpudnnAttnDescriptor_t, size_t*, size_t*, size_t*) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnGetMultiHeadAttnWeights(gpudnnHandle_t, const gpudnnAttnDescriptor_t,
                                             gpudnnMultiHeadAttnWeightKind_t, size_t, const void*,
                                             gpudnnTensorDescriptor_t, void**) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnMultiHeadAttnForward(gpudnnHandle_t, const gpudnnAttnDescriptor_t, int, const int[], const int[],
                                          const int[], const int[], const gpudnnSeqDataDescriptor_t, const void*,
                                          const void*, const gpudnnSeqDataDescriptor_t, const void*,
                                          const gpudnnSeqDataDescriptor_t, const void*, const gpudnnSeqDataDescriptor_t,
                                          void*, size_t, const void*, size_t, void*, size_t, void*) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnMultiHeadAttnBackwardData(gpudnnHandle_t, const gpudnnAttnDescriptor_t, const int[], const int[],
                                               const int[], const int[], const gpudnnSeqDataDescriptor_t, const void*,
                                               const gpudnnSeqDataDescriptor_t, void*, const void*,
                                               const gpudnnSeqDataDescriptor_t, void*, const void*,
                                               const gpudnnSeqDataDescriptor_t, void*, const void*, size_t, const void*,
                                               size_t, void*, size_t, void*) {
  return gpudnn::not_built(__func__, "attention layers");
}

gpudnnStatus_t gpudnnMultiHeadAttnBackwardWeights(gpudnnHandle_t, const gpudnnAttnDescriptor_t, gpudnnWgradMode_t,
                                                  const gpudnnSeqDataDescriptor_t, const void*,
                                                  const gpudnnSeqDataDescriptor_t, const void*,
                                                  const gpudnnSeqDataDescriptor_t, const void*,
                                                  const gpudnnSeqDataDescriptor_t, const void*, size_t, const void*,
                                                  void*, size_t, void*, size_t, void*) {
  return gpudnn::not_built(__func__, "attention layers");
}

}  // extern "C"
