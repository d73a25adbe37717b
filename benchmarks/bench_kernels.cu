// The benchmark's own kernels: an empty one, whose launch is the least that a call can cost the host, and one that
// reads a buffer through the L2.
// SPDX-License-Identifier: Apache-2.0
#include "bench_kernels.hpp"

namespace gpudnn::bench {
namespace {

__global__ void empty_kernel() {}

__global__ void read_kernel(const uint4* zeros, std::size_t count, unsigned* never_written) {
  unsigned bits = 0;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 value = zeros[i];
    bits |= value.x | value.y | value.z | value.w;
  }
  // The compiler cannot know that all bits are zero, so it keeps the loads.
  if (bits != 0) *never_written = bits;
}

}  // namespace

void launch_empty(cudaStream_t stream) noexcept { empty_kernel<<<1, 1, 0, stream>>>(); }

void launch_read(const void* zeros, std::size_t bytes, void* never_written, cudaStream_t stream) noexcept {
  read_kernel<<<1024, 256, 0, stream>>>(static_cast<const uint4*>(zeros), bytes / sizeof(uint4),
                                        static_cast<unsigned*>(never_written));
}

}  // namespace gpudnn::bench
