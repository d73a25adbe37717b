// Entry points of spatial transformers.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/ops.h"

extern "C" {

gpudnnStatus_t gpudnnCreateSpatialTransformerDescriptor(gpudnnSpatialTransformerDescriptor_t*) {
  return gpudnn::not_built(__func__, "spatial transformers");
}

gpudnnStatus_t gpudnnSetSpatialTransformerNdDescriptor(gpudnnSpatialTransformerDescriptor_t, gpudnnSamplerType_t,
                                                       gpudnnDataType_t, const int, const int[]) {
  return gpudnn::not_built(__func__, "spatial transformers");
}

gpudnnStatus_t gpudnnDestroySpatialTransformerDescriptor(gpudnnSpatialTransformerDescriptor_t) {
  return gpudnn::not_built(__func__, "spatial transformers");
}

gpudnnStatus_t gpudnnSpatialTfGridGeneratorForward(gpudnnHandle_t, const gpudnnSpatialTransformerDescriptor_t,
                                                   const void*, void*) {
  return gpudnn::not_built(__func__, "spatial transformers");
}

gpudnnStatus_t gpudnnSpatialTfSamplerForward(gpudnnHandle_t, gpudnnSpatialTransformerDescriptor_t, const void*,
                                             const gpudnnTensorDescriptor_t, const void*, const void*, const void*,
                                             gpudnnTensorDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "spatial transformers");
}

gpudnnStatus_t gpudnnSpatialTfGridGeneratorBackward(gpudnnHandle_t, const gpudnnSpatialTransformerDescriptor_t,
                                                    const void*, void*) {
  return gpudnn::not_built(__func__, "spatial transformers");
}

gpudnnStatus_t gpudnnSpatialTfSamplerBackward(gpudnnHandle_t, gpudnnSpatialTransformerDescriptor_t, const void*,
                                              const gpudnnTensorDescriptor_t, const void*, const void*,
                                              const gpudnnTensorDescriptor_t, void*, const void*,
                                              const gpudnnTensorDescriptor_t, const void*, const void*, const void*,
                                              void*) {
  return gpudnn::not_built(__func__, "spatial transformers");
}

}  // extern "C"
