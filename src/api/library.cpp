// Versions, statuses, the last-error text and the log callback.
// SPDX-License-Identifier: Apache-2.0
#include "core/descriptor.hpp"
#include "core/device.hpp"
#include "core/guard.hpp"
#include "gpudnn/gpudnn.h"

using namespace gpudnn;

extern "C" size_t gpudnnGetVersion(void) { return GPUDNN_VERSION; }
extern "C" size_t gpudnnGetLibraryVersion(void) { return GPUDNN_LIBRARY_VERSION; }
extern "C" size_t gpudnnGetMaxDeviceVersion(void) { return static_cast<size_t>(cuda::max_device_version()) * 10; }
extern "C" size_t gpudnnGetCudartVersion(void) { return static_cast<size_t>(cuda::runtime_version()); }

extern "C" gpudnnStatus_t gpudnnGetProperty(libraryPropertyType type, int* value) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_POINTER(value);
    switch (type) {
      case MAJOR_VERSION:
        *value = GPUDNN_MAJOR;
        return GPUDNN_STATUS_SUCCESS;
      case MINOR_VERSION:
        *value = GPUDNN_MINOR;
        return GPUDNN_STATUS_SUCCESS;
      case PATCH_LEVEL:
        *value = GPUDNN_PATCHLEVEL;
        return GPUDNN_STATUS_SUCCESS;
    }
    return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "type is %d; it must be MAJOR_VERSION, MINOR_VERSION or PATCH_LEVEL",
                         static_cast<int>(type));
  });
}

extern "C" const char* gpudnnGetErrorString(gpudnnStatus_t status) { return status_name(status); }
extern "C" void gpudnnGetLastErrorString(char* message, size_t max_size) { take_last_error(message, max_size); }

extern "C" gpudnnStatus_t gpudnnSetCallback(unsigned mask, void* udata, gpudnnCallback_t fptr) {
  return guard(__func__, [&]() -> Status {
    set_log_callback(mask, udata, fptr);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetCallback(unsigned* mask, void** udata, gpudnnCallback_t* fptr) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_POINTER(mask);
    GPUDNN_CHECK_POINTER(udata);
    GPUDNN_CHECK_POINTER(fptr);
    get_log_callback(mask, udata, fptr);
    return GPUDNN_STATUS_SUCCESS;
  });
}

// One library holds all the parts, so their versions cannot differ.
extern "C" gpudnnStatus_t gpudnnGraphVersionCheck(void) { return GPUDNN_STATUS_SUCCESS; }
extern "C" gpudnnStatus_t gpudnnOpsVersionCheck(void) { return GPUDNN_STATUS_SUCCESS; }
extern "C" gpudnnStatus_t gpudnnCnnVersionCheck(void) { return GPUDNN_STATUS_SUCCESS; }
extern "C" gpudnnStatus_t gpudnnAdvVersionCheck(void) { return GPUDNN_STATUS_SUCCESS; }
