// A build without CUDA has no streams.
// SPDX-License-Identifier: Apache-2.0
#include "soak/streams.hpp"

namespace gpudnn::test {

bool has_streams(gpudnnHandle_t) { return false; }
std::size_t device_bytes_in_use(gpudnnHandle_t) { return 0; }
gpudnnStatus_t give_stream(gpudnnHandle_t) { return GPUDNN_STATUS_SUCCESS; }
gpudnnStatus_t destroy_with_stream(gpudnnHandle_t handle) { return gpudnnDestroy(handle); }
gpudnnStatus_t synchronize(gpudnnHandle_t) { return GPUDNN_STATUS_SUCCESS; }
gpudnnStatus_t capture_and_replay(gpudnnHandle_t, const Call&, int, const std::function<void()>&) {
  return GPUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace gpudnn::test
