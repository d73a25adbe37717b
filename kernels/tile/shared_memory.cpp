// Leave to take shared memory, told to the runtime once for each kernel and device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tile/shared_memory.hpp"

#include <cuda_runtime_api.h>

#include <atomic>

namespace gpudnn::tile {

void allow_shared_memory(const void* kernel, int bytes, bool all_of_l1, ConfiguredDevices* told) {
  const std::atomic_ref<ConfiguredDevices> devices(*told);
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return;  // the launch will say why
  const ConfiguredDevices bit = device < 64 ? ConfiguredDevices{1} << device : 0;
  if ((devices.load(std::memory_order_relaxed) & bit) != 0) return;
  if (bytes == kAllThatABlockMayHave &&
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
    return;
  }
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) return;
  if (all_of_l1) {
    (void)cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  }
  devices.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace gpudnn::tile
