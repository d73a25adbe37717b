// The handle and its stream.
// SPDX-License-Identifier: Apache-2.0
#include "core/handle.hpp"

#include "core/engine_names.hpp"
#include "core/guard.hpp"
#include "core/verify.hpp"
#include "gpudnn/gpudnn.h"

using namespace gpudnn;

extern "C" gpudnnStatus_t gpudnnCreate(gpudnnHandle_t* handle) {
  return guard(__func__, [&]() -> Status { return create_handle(handle); });
}

extern "C" gpudnnStatus_t gpudnnDestroy(gpudnnHandle_t handle) {
  return guard(__func__, [&]() -> Status {
    if (handle == nullptr) return GPUDNN_STATUS_SUCCESS;
    GPUDNN_TRY(check_handle(handle));
    if (log_enabled(GPUDNN_SEV_WARNING)) {
      for (const std::string& name : engine_names_not_met()) {
        log_line(GPUDNN_SEV_WARNING, handle, GPUDNN_STATUS_SUCCESS,
                 "gpudnnDestroy: GPUDNN_ENGINES names '%s', which no engine that was asked for work has", name.c_str());
      }
    }
    if (verify::watching()) {
      const verify::Counts counts = verify::counts();
      log_line(GPUDNN_SEV_INFO, handle, GPUDNN_STATUS_SUCCESS,
               "gpudnnDestroy: GPUDNN_VERIFY: %llu operations, %llu verified, %llu differ",
               static_cast<unsigned long long>(counts.operations), static_cast<unsigned long long>(counts.verified),
               static_cast<unsigned long long>(counts.differing));
    }
    call_context().handle = nullptr;  // the log line comes after the handle's end
    Pool<gpudnnContext>::destroy(handle);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetStream(gpudnnHandle_t handle, cudaStream_t streamId) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    handle->stream.store(streamId, std::memory_order_relaxed);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetStream(gpudnnHandle_t handle, cudaStream_t* streamId) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(streamId);
    *streamId = handle->stream.load(std::memory_order_relaxed);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnQueryRuntimeError(gpudnnHandle_t handle, gpudnnStatus_t* rstatus,
                                                  gpudnnErrQueryMode_t mode, gpudnnRuntimeTag_t* tag) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(rstatus);
    GPUDNN_REQUIRE(mode >= GPUDNN_ERRQUERY_RAWCODE && mode <= GPUDNN_ERRQUERY_BLOCKING, GPUDNN_STATUS_BAD_PARAM,
                   "mode is %d; it must be RAWCODE, NONBLOCKING or BLOCKING", static_cast<int>(mode));
    (void)tag;  // reserved: null in every version of the interface
    *rstatus = GPUDNN_STATUS_SUCCESS;
    // The host backend has done its work when a call returns. No kernel of this library reports an error of its own, so
    // what there is to tell is the state of the stream.
    if (handle->device->backend == GPUDNN_BACKEND_HOST || mode == GPUDNN_ERRQUERY_RAWCODE) return GPUDNN_STATUS_SUCCESS;
    const LaunchSite site = launch_site(handle);
    if (mode == GPUDNN_ERRQUERY_BLOCKING) GPUDNN_TRY(cuda::synchronize(site.device, site.stream));
    const Status state = cuda::query(site.device, site.stream);
    if (state == GPUDNN_STATUS_RUNTIME_IN_PROGRESS) {
      *rstatus = state;
      return GPUDNN_STATUS_SUCCESS;
    }
    *rstatus = state;
    return state;
  });
}
