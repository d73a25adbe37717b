// The one way of a kernel to the device: how it is launched, as plain data, and the launch. Host code of kernels/ may
// include it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpudnn::cuda {

// How a kernel is launched, beside its arguments.
struct LaunchConfig {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block
  dim3 cluster = {1, 1, 1};      // blocks of a cluster
  bool overlaps = false;     // it may begin before the kernel ahead of it ends, and waits for that one's writes itself
  bool cooperative = false;  // all blocks are resident at once
};

// `clusters` clusters of `size` blocks each.
[[nodiscard]] inline LaunchConfig clusters_of(std::int64_t clusters, int size, int threads, int shared_bytes = 0) {
  return {.blocks = dim3(static_cast<unsigned>(clusters * size)),
          .threads = dim3(static_cast<unsigned>(threads)),
          .shared_bytes = static_cast<std::size_t>(shared_bytes),
          .cluster = dim3(static_cast<unsigned>(size))};
}

// Launches on the current device. A failure also stays with the runtime until cudaGetLastError.
cudaError_t launch(const void* kernel, const LaunchConfig& config, cudaStream_t stream, void** arguments) noexcept;

template <class... Parameters>
cudaError_t launch_kernel(void (*kernel)(Parameters...), const LaunchConfig& config, cudaStream_t stream,
                          const std::type_identity_t<Parameters>&... arguments) noexcept {
  static_assert(sizeof...(Parameters) > 0, "a kernel without parameters has no result");
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};  // NOLINT
  return launch(reinterpret_cast<const void*>(kernel), config, stream, addresses);
}

// How many clusters of the kernel can be resident at once on the current device. A failure is the runtime's answer, and
// does not stay with it.
[[nodiscard]] cudaError_t max_resident_clusters(const void* kernel, const LaunchConfig& config, int* clusters) noexcept;

}  // namespace gpudnn::cuda
