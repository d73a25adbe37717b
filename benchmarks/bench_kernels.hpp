// The benchmark's own kernels, as host functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace gpudnn::bench {

// Launches a kernel that does nothing.
void launch_empty(cudaStream_t stream) noexcept;
// Reads `bytes` bytes of zeros (a multiple of 16), so that clean lines of this buffer fill the L2.
void launch_read(const void* zeros, std::size_t bytes, void* never_written, cudaStream_t stream) noexcept;

}  // namespace gpudnn::bench
