// What libgpudnn adds for programs that run on any backend.
// SPDX-License-Identifier: Apache-2.0
#include "gpudnn/ext.h"

#include <cstdlib>
#include <cstring>

#include "core/guard.hpp"
#include "core/handle.hpp"

using namespace gpudnn;

extern "C" gpudnnStatus_t gpudnnGetBackend(gpudnnHandle_t handle, gpudnnBackend_t* backend) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(backend);
    *backend = handle->device->backend;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnMalloc(gpudnnHandle_t handle, void** ptr, size_t sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(ptr);
    *ptr = nullptr;
    if (sizeInBytes == 0) return GPUDNN_STATUS_SUCCESS;
    if (handle->device->backend == GPUDNN_BACKEND_CUDA) return cuda::allocate(*handle->device, ptr, sizeInBytes);
    constexpr size_t kAlignment = 256;
    if (posix_memalign(ptr, kAlignment, sizeInBytes) != 0) {
      *ptr = nullptr;
      return GPUDNN_REFUSE(GPUDNN_STATUS_ALLOC_FAILED, "the host is out of memory: %zu bytes needed", sizeInBytes);
    }
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnFree(gpudnnHandle_t handle, void* ptr) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    if (ptr == nullptr) return GPUDNN_STATUS_SUCCESS;
    if (handle->device->backend == GPUDNN_BACKEND_CUDA) return cuda::release(*handle->device, ptr);
    std::free(ptr);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnMemcpy(gpudnnHandle_t handle, void* dst, const void* src, size_t sizeInBytes,
                                       gpudnnMemcpyKind_t kind) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_REQUIRE(kind >= GPUDNN_MEMCPY_HOST_TO_HOST && kind <= GPUDNN_MEMCPY_DEVICE_TO_DEVICE,
                   GPUDNN_STATUS_BAD_PARAM, "kind is %d; it must be a gpudnnMemcpyKind_t", static_cast<int>(kind));
    if (sizeInBytes == 0) return GPUDNN_STATUS_SUCCESS;
    GPUDNN_CHECK_POINTER(dst);
    GPUDNN_CHECK_POINTER(src);
    if (handle->device->backend == GPUDNN_BACKEND_HOST) {
      std::memmove(dst, src, sizeInBytes);
      return GPUDNN_STATUS_SUCCESS;
    }
    const LaunchSite site = launch_site(handle);
    return cuda::copy(site.device, site.stream, dst, src, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnReportError(gpudnnStatus_t status, const char* message) {
  const gpudnnStatus_t reported = guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_POINTER(message);
    GPUDNN_REQUIRE(status != GPUDNN_STATUS_SUCCESS && std::strcmp(status_name(status), "GPUDNN_STATUS_UNKNOWN") != 0,
                   GPUDNN_STATUS_BAD_PARAM, "status is %d; it must be a failure of gpudnnStatus_t",
                   static_cast<int>(status));
    set_last_error(status, message);
    log_line(GPUDNN_SEV_ERROR, nullptr, status, "%s -> %s", message, status_name(status));
    return GPUDNN_STATUS_SUCCESS;
  });
  if (reported == GPUDNN_STATUS_SUCCESS) call_context().failed = true;  // the call that is told of has
  return reported;
}

extern "C" const char* gpudnnDescribeError(gpudnnStatus_t status, const char* name) {
  return describe_error(status, name);
}
