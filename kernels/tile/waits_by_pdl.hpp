// Whether a kernel may be launched to begin while the one ahead of it ends (LaunchConfig::overlaps).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gpudnn::tile {

// Whether the kernel in use waits for the one before by itself, where it asks to. What is made from the code of an
// older architecture does not. All devices of a capability have the same code, and Hopper's are the only ones to be
// asked about.
template <auto kKernel>
bool waits_by_pdl() {
  static const bool waits = [] {
    cudaFuncAttributes attributes = {};
    if (cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kKernel)) == cudaSuccess) {
      return attributes.ptxVersion >= 90;
    }
    (void)cudaGetLastError();
    return false;
  }();
  return waits;
}

}  // namespace gpudnn::tile
