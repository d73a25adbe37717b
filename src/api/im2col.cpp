// Entry point of the column buffer of a convolution input.
//
// Not built yet: it refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/cnn.h"

extern "C" {

gpudnnStatus_t gpudnnIm2Col(gpudnnHandle_t, const gpudnnTensorDescriptor_t, const void*, const gpudnnFilterDescriptor_t,
                            const gpudnnConvolutionDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "column buffers (im2col)");
}

}  // extern "C"
