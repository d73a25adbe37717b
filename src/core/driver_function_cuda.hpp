// Functions of the driver, which the runtime knows: libcuda is not linked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gpudnn::cuda {

// The function of CUDA 12.0 by that name; null where the driver has none.
template <class Function>
[[nodiscard]] Function driver_function(const char* name) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) == cudaSuccess &&
      result == cudaDriverEntryPointSuccess) {
    return reinterpret_cast<Function>(found);
  }
  (void)cudaGetLastError();
  return nullptr;
}

}  // namespace gpudnn::cuda
