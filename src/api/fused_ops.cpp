// Entry points of fused operation plans.
//
// None is built yet: each refuses with NOT_SUPPORTED, whatever its arguments are.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"
#include "gpudnn/cnn.h"

extern "C" {

gpudnnStatus_t gpudnnCreateFusedOpsConstParamPack(gpudnnFusedOpsConstParamPack_t*, gpudnnFusedOps_t) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnDestroyFusedOpsConstParamPack(gpudnnFusedOpsConstParamPack_t) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnSetFusedOpsConstParamPackAttribute(gpudnnFusedOpsConstParamPack_t, gpudnnFusedOpsConstParamLabel_t,
                                                        const void*) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnGetFusedOpsConstParamPackAttribute(const gpudnnFusedOpsConstParamPack_t,
                                                        gpudnnFusedOpsConstParamLabel_t, void*, int*) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnCreateFusedOpsVariantParamPack(gpudnnFusedOpsVariantParamPack_t*, gpudnnFusedOps_t) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnDestroyFusedOpsVariantParamPack(gpudnnFusedOpsVariantParamPack_t) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnSetFusedOpsVariantParamPackAttribute(gpudnnFusedOpsVariantParamPack_t,
                                                          gpudnnFusedOpsVariantParamLabel_t, void*) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnGetFusedOpsVariantParamPackAttribute(const gpudnnFusedOpsVariantParamPack_t,
                                                          gpudnnFusedOpsVariantParamLabel_t, void*) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnCreateFusedOpsPlan(gpudnnFusedOpsPlan_t*, gpudnnFusedOps_t) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnDestroyFusedOpsPlan(gpudnnFusedOpsPlan_t) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnMakeFusedOpsPlan(gpudnnHandle_t, gpudnnFusedOpsPlan_t, const gpudnnFusedOpsConstParamPack_t,
                                      size_t*) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

gpudnnStatus_t gpudnnFusedOpsExecute(gpudnnHandle_t, const gpudnnFusedOpsPlan_t, gpudnnFusedOpsVariantParamPack_t) {
  return gpudnn::not_built(__func__, "fused operation plans");
}

}  // extern "C"
