// Saved plans: loading any text gives a status, and what loads executes or refuses without a pack's pointers.
// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"
#include "gpudnn/gpudnn.h"

namespace {

gpudnnHandle_t handle() {
  static gpudnnHandle_t made = [] {
    gpudnnHandle_t h = nullptr;
    if (gpudnnCreate(&h) != GPUDNN_STATUS_SUCCESS) std::abort();
    return h;
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpudnnBackendDescriptor_t plan = nullptr;
  gpudnnBackendDescriptor_t pack = nullptr;
  gpudnnHandle_t h = handle();
  if (gpudnnBackendCreateDescriptor(GPUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) != GPUDNN_STATUS_SUCCESS) abort();
  if (gpudnnBackendCreateDescriptor(GPUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) != GPUDNN_STATUS_SUCCESS) abort();
  (void)gpudnnBackendSetAttribute(plan, GPUDNN_ATTR_EXECUTION_PLAN_HANDLE, GPUDNN_TYPE_HANDLE, 1, &h);
  const gpudnnStatus_t set = gpudnnBackendSetAttribute(plan, GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                       GPUDNN_TYPE_CHAR, static_cast<std::int64_t>(size), data);
  const gpudnnStatus_t loaded = set == GPUDNN_STATUS_SUCCESS ? gpudnnBackendFinalize(plan) : set;
  if (loaded == GPUDNN_STATUS_SUCCESS && gpudnnBackendFinalize(pack) == GPUDNN_STATUS_SUCCESS) {
    (void)gpudnnBackendExecute(h, plan, pack);  // every graph needs a pointer, so that nothing is computed
  }
  (void)gpudnnBackendDestroyDescriptor(pack);
  (void)gpudnnBackendDestroyDescriptor(plan);
  return 0;
}
