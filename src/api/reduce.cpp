// Entry points of reductions over tensor dimensions.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/ops.h"

extern "C" {

gpudnnStatus_t gpudnnCreateReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t*) {
  return gpudnn::not_built(__func__, "tensor reductions");
}

gpudnnStatus_t gpudnnSetReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t, gpudnnReduceTensorOp_t, gpudnnDataType_t,
                                               gpudnnNanPropagation_t, gpudnnReduceTensorIndices_t,
                                               gpudnnIndicesType_t) {
  return gpudnn::not_built(__func__, "tensor reductions");
}

gpudnnStatus_t gpudnnGetReduceTensorDescriptor(const gpudnnReduceTensorDescriptor_t, gpudnnReduceTensorOp_t*,
                                               gpudnnDataType_t*, gpudnnNanPropagation_t*, gpudnnReduceTensorIndices_t*,
                                               gpudnnIndicesType_t*) {
  return gpudnn::not_built(__func__, "tensor reductions");
}

gpudnnStatus_t gpudnnDestroyReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t) {
  return gpudnn::not_built(__func__, "tensor reductions");
}

gpudnnStatus_t gpudnnGetReductionIndicesSize(gpudnnHandle_t, const gpudnnReduceTensorDescriptor_t,
                                             const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t, size_t*) {
  return gpudnn::not_built(__func__, "tensor reductions");
}

gpudnnStatus_t gpudnnGetReductionWorkspaceSize(gpudnnHandle_t, const gpudnnReduceTensorDescriptor_t,
                                               const gpudnnTensorDescriptor_t, const gpudnnTensorDescriptor_t,
                                               size_t*) {
  return gpudnn::not_built(__func__, "tensor reductions");
}

gpudnnStatus_t gpudnnReduceTensor(gpudnnHandle_t, const gpudnnReduceTensorDescriptor_t, void*, size_t, void*, size_t,
                                  const void*, const gpudnnTensorDescriptor_t, const void*, const void*,
                                  const gpudnnTensorDescriptor_t, void*) {
  return gpudnn::not_built(__func__, "tensor reductions");
}

}  // extern "C"
