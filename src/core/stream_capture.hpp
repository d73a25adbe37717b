// Whether a stream's work is being captured into a CUDA graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device.hpp"

namespace gpudnn::cuda {

[[nodiscard]] bool is_capturing(const Device& device, cudaStream_t stream) noexcept;

}  // namespace gpudnn::cuda
