// Leave for a kernel to take more shared memory than the 48 KiB that every kernel may have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace gpudnn::tile {

constexpr int kAllThatABlockMayHave = 0;

// Lets a block of the kernel take `bytes` of dynamic shared memory on the current device, and with `all_of_l1` gives
// the multiprocessor's L1 to shared memory as far as it goes. Told once for each device: the calls cost more than the
// rest of a launch. A kernel always names the same size, as other threads may be about to launch it.
template <auto kKernel>
void allow_shared_memory(int bytes, bool all_of_l1 = false) {
  static std::atomic<std::uint64_t> allowed{0};  // a bit for each device; those beyond 63 are told every time
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return;  // the launch will say why
  const std::uint64_t bit = device < 64 ? std::uint64_t{1} << device : 0;
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return;
  if (bytes == kAllThatABlockMayHave &&
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
    return;
  }
  if (cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) return;
  if (all_of_l1) {
    (void)cudaFuncSetAttribute(kKernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  }
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace gpudnn::tile
