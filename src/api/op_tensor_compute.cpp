// Entry point of the two-operand tensor operation.
//
// Not built yet: it refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/ops.h"

extern "C" {

gpudnnStatus_t gpudnnOpTensor(gpudnnHandle_t, const gpudnnOpTensorDescriptor_t, const void*,
                              const gpudnnTensorDescriptor_t, const void*, const void*, const gpudnnTensorDescriptor_t,
                              const void*, const void*, const gpudnnTensorDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "binary tensor operations");
}

}  // extern "C"
