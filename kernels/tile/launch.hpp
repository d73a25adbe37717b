// The way of a kernel to the device: every launch that may be one of several in a call goes through here.
//
// While the calling thread keeps a list for the stream, launches are put there, arguments and all, in place of being
// made: the one who keeps it launches the whole list as one graph (src/core/launch_graphs). Otherwise a launch is made
// at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpudnn::tile {

// How a kernel is launched, beside its arguments.
struct LaunchConfig {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block
  unsigned cluster = 1;          // blocks of a cluster
  bool overlaps = false;  // it may begin before the kernel ahead of it ends, and waits for that one's writes itself
};

// Launches, or puts on the thread's list. A failure stays with the runtime until cudaGetLastError, as with any launch.
// `bytes` are the sizes of the arguments.
void enqueue(const void* kernel, const LaunchConfig& config, cudaStream_t stream, void** arguments,
             const std::uint32_t* bytes, std::size_t count) noexcept;

template <class... Parameters>
void launch_kernel(void (*kernel)(Parameters...), const LaunchConfig& config, cudaStream_t stream,
                   const std::type_identity_t<Parameters>&... arguments) noexcept {
  static_assert(sizeof...(Parameters) > 0, "a kernel without parameters has no result");
  static constexpr std::uint32_t kBytes[] = {static_cast<std::uint32_t>(sizeof(Parameters))...};
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};  // NOLINT
  enqueue(reinterpret_cast<const void*>(kernel), config, stream, addresses, kBytes, sizeof...(Parameters));
}

}  // namespace gpudnn::tile
