// Entry point of reordering of filters and biases for INT8x32.
//
// Not built yet: it refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/cnn.h"

extern "C" {

gpudnnStatus_t gpudnnReorderFilterAndBias(gpudnnHandle_t, const gpudnnFilterDescriptor_t, gpudnnReorderType_t,
                                          const void*, void*, int, const void*, void*) {
  return gpudnn::not_built(__func__, "reordered INT8x32 filters");
}

}  // extern "C"
