// The device calls of a build without CUDA: there is no device.
// SPDX-License-Identifier: Apache-2.0
#include "core/device.hpp"

namespace gpudnn {

const Device& host_device() noexcept {
  static const Device device;
  return device;
}

namespace cuda {
namespace {
Status no_cuda() noexcept { return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "this build of libgpudnn has no CUDA"); }
}  // namespace

bool available(std::string* why_not) {
  if (why_not != nullptr) *why_not = "this build of libgpudnn has no CUDA";
  return false;
}
Status current_device(const Device**) { return no_cuda(); }
Status allocate(const Device&, void**, std::size_t) { return no_cuda(); }
Status release(const Device&, void*) { return no_cuda(); }
Status copy(const Device&, cudaStream_t, void*, const void*, std::size_t) { return no_cuda(); }
Status fill(const Device&, cudaStream_t, void*, int, std::size_t) { return no_cuda(); }
Status synchronize(const Device&, cudaStream_t) { return no_cuda(); }
Status query(const Device&, cudaStream_t) { return no_cuda(); }
Status time_on_stream(const Device&, cudaStream_t, int, Status (*)(void*), void*, float*) { return no_cuda(); }
int runtime_version() noexcept { return 0; }
int driver_version() noexcept { return 0; }
int max_device_version() noexcept { return 0; }
DeviceScope::DeviceScope(int) noexcept {}
DeviceScope::~DeviceScope() = default;
Status launch_status(const char*) noexcept { return no_cuda(); }

}  // namespace cuda
}  // namespace gpudnn
