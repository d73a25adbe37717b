// Entry points of the graph interface: backend descriptors.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/graph.h"

extern "C" {

gpudnnStatus_t gpudnnBackendCreateDescriptor(gpudnnBackendDescriptorType_t, gpudnnBackendDescriptor_t*) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

gpudnnStatus_t gpudnnBackendDestroyDescriptor(gpudnnBackendDescriptor_t) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

gpudnnStatus_t gpudnnBackendInitialize(gpudnnBackendDescriptor_t) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

gpudnnStatus_t gpudnnBackendFinalize(gpudnnBackendDescriptor_t) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

gpudnnStatus_t gpudnnBackendSetAttribute(gpudnnBackendDescriptor_t, gpudnnBackendAttributeName_t,
                                         gpudnnBackendAttributeType_t, int64_t, const void*) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

gpudnnStatus_t gpudnnBackendGetAttribute(gpudnnBackendDescriptor_t const, gpudnnBackendAttributeName_t,
                                         gpudnnBackendAttributeType_t, int64_t, int64_t*, void*) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

gpudnnStatus_t gpudnnBackendExecute(gpudnnHandle_t, gpudnnBackendDescriptor_t, gpudnnBackendDescriptor_t) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

gpudnnStatus_t gpudnnBackendPopulateCudaGraph(gpudnnHandle_t, gpudnnBackendDescriptor_t, gpudnnBackendDescriptor_t,
                                              cudaGraph_t) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

gpudnnStatus_t gpudnnBackendUpdateCudaGraph(gpudnnHandle_t, gpudnnBackendDescriptor_t, gpudnnBackendDescriptor_t,
                                            cudaGraph_t) {
  return gpudnn::not_built(__func__, "backend descriptors");
}

}  // extern "C"
