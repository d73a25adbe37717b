// The library handle.
// SPDX-License-Identifier: Apache-2.0
#include "core/handle.hpp"

#include <cstdio>
#include <string>

#include "core/build_info.hpp"
#include "core/environment.hpp"
#include "core/guard.hpp"

namespace gpudnn {
namespace {

// Where the handle computes and what build this is: what a report of a bug has to say.
std::string describe(const Device& device) {
  char text[384];
  int used = 0;
  if (device.backend == GPUDNN_BACKEND_CUDA) {
    used = std::snprintf(text, sizeof text, "backend=cuda device=%d '%s' sm_%d multiprocessors=%d driver=%d runtime=%d",
                         device.ordinal, device.name.c_str(), device.compute_capability(), device.multiprocessors,
                         cuda::driver_version(), cuda::runtime_version());
  } else {
    used = std::snprintf(text, sizeof text, "backend=host");
  }
  std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used),
                " version=%d.%d.%d interface=%d.%d.%d commit=%s", GPUDNN_LIBRARY_MAJOR, GPUDNN_LIBRARY_MINOR,
                GPUDNN_LIBRARY_PATCH, GPUDNN_MAJOR, GPUDNN_MINOR, GPUDNN_PATCHLEVEL, build_commit());
  return text;
}

void warn(const char* text) {
  log_line(GPUDNN_SEV_WARNING, nullptr, GPUDNN_STATUS_SUCCESS, "%s: %s", current_function(), text);
}

}  // namespace

Status create_handle(gpudnnHandle_t* handle) {
  GPUDNN_CHECK_POINTER(handle);
  *handle = nullptr;
  if (log_enabled(GPUDNN_SEV_WARNING)) {
    for (const std::string& mistake : environment_mistakes()) warn(mistake.c_str());
  }
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
    if (usable) {
      GPUDNN_TRY(cuda::current_device(&device));
    } else if (cuda::runtime_version() != 0) {
      warn(("no CUDA device can be used (" + text + "), so the handle computes on the CPU").c_str());
    }
  }
  note_problem_lazily([&] { return describe(*device); });  // may be out of memory: before there is a handle to lose
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
