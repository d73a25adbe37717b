// Streams of the soak's handles, and captures, on a GPU; on the host there are none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "gpudnn/gpudnn.h"

namespace gpudnn::test {

using Call = std::function<gpudnnStatus_t(gpudnnHandle_t)>;

[[nodiscard]] bool has_streams(gpudnnHandle_t handle);
// Bytes of the device that are in use, those of other processes among them; 0 on the host.
[[nodiscard]] std::size_t device_bytes_in_use(gpudnnHandle_t handle);
// Gives the handle a stream of its own, and ends the handle with it.
[[nodiscard]] gpudnnStatus_t give_stream(gpudnnHandle_t handle);
[[nodiscard]] gpudnnStatus_t destroy_with_stream(gpudnnHandle_t handle);
// Waits for the handle's stream.
[[nodiscard]] gpudnnStatus_t synchronize(gpudnnHandle_t handle);
// Captures the call on the handle's stream, which no other thread may use, and replays what was captured `replays`
// times, with between() before each. The status is that of the call, or what CUDA gives for the rest.
[[nodiscard]] gpudnnStatus_t capture_and_replay(gpudnnHandle_t handle, const Call& call, int replays,
                                                const std::function<void()>& between);

}  // namespace gpudnn::test
