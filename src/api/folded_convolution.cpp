// Entry point of descriptors of the folded data gradient.
//
// Not built yet: it refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/cnn.h"

extern "C" {

gpudnnStatus_t gpudnnGetFoldedConvBackwardDataDescriptors(
    const gpudnnHandle_t, const gpudnnFilterDescriptor_t, const gpudnnTensorDescriptor_t,
    const gpudnnConvolutionDescriptor_t, const gpudnnTensorDescriptor_t, const gpudnnTensorFormat_t,
    gpudnnFilterDescriptor_t, gpudnnTensorDescriptor_t, gpudnnConvolutionDescriptor_t, gpudnnTensorDescriptor_t,
    gpudnnTensorTransformDescriptor_t, gpudnnTensorTransformDescriptor_t, gpudnnTensorTransformDescriptor_t,
    gpudnnTensorTransformDescriptor_t) {
  return gpudnn::not_built(__func__, "folded convolutions");
}

}  // extern "C"
