// The library handle: a backend, a device, a stream and the plans made so far. Safe to use from many threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "core/descriptor.hpp"
#include "core/device.hpp"
#include "core/plan_cache.hpp"

struct gpudnnContext : gpudnn::Object {
  gpudnnContext() : Object{gpudnn::Kind::handle} {}

  const gpudnn::Device* device = &gpudnn::host_device();
  std::atomic<cudaStream_t> stream{nullptr};
  gpudnn::PlanCache plans;
};

namespace gpudnn {

[[nodiscard]] Status create_handle(gpudnnHandle_t* handle);

// Refuses unless the handle is live; notes it for the call's log line.
[[nodiscard]] Status check_handle(gpudnnHandle_t handle) noexcept;

// Where an engine's launch happens: the device, its stream, the workspace.
struct LaunchSite {
  const Device& device;
  cudaStream_t stream;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};
[[nodiscard]] inline LaunchSite launch_site(gpudnnHandle_t handle, void* workspace = nullptr,
                                            std::size_t workspace_bytes = 0) noexcept {
  return {*handle->device, handle->stream.load(std::memory_order_relaxed), workspace, workspace_bytes};
}

}  // namespace gpudnn
