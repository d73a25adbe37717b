// What a launch asks of the scope that it stands in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gpudnn::cuda {

// Why a DeviceScope that this thread is in could not make its device current, cudaSuccess where each could: a launch
// would go to another device.
[[nodiscard]] cudaError_t failed_scope() noexcept;

}  // namespace gpudnn::cuda
