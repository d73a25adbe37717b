// The library handle.
// SPDX-License-Identifier: Apache-2.0
#include "core/handle.hpp"

#include <string>

#include "core/environment.hpp"
#include "core/guard.hpp"

namespace gpudnn {

Status create_handle(gpudnnHandle_t* handle) {
  GPUDNN_CHECK_POINTER(handle);
  *handle = nullptr;
  BackendChoice choice = BackendChoice::automatic;
  std::string text;
  if (!environment_backend(&choice, &text)) {
    return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_INITIALIZED, "GPUDNN_BACKEND is '%s'; it must be auto, host or cuda",
                         text.c_str());
  }
  const Device* device = &host_device();
  if (choice != BackendChoice::host) {
    const bool usable = cuda::available(&text);
    if (!usable && choice == BackendChoice::cuda) {
      return GPUDNN_REFUSE(
          GPUDNN_STATUS_NOT_INITIALIZED,
          "GPUDNN_BACKEND is 'cuda', but there is no CUDA device: %s; set it to auto or host to run on the CPU",
          text.c_str());
    }
    if (usable) GPUDNN_TRY(cuda::current_device(&device));
  }
  gpudnnHandle_t made = Pool<gpudnnContext>::create();
  made->device = device;
  *handle = made;
  call_context().handle = made;
  return GPUDNN_STATUS_SUCCESS;
}

Status check_handle(gpudnnHandle_t handle) noexcept {
  GPUDNN_CHECK_OBJECT(handle, Kind::handle);
  call_context().handle = handle;
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn
