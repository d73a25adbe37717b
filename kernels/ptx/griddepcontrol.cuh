// griddepcontrol.wait: until the grids that this one was launched behind are done and their writes can be seen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

// Without effect in a launch that waits for its predecessors by itself, and on architectures that know no other.
__device__ __forceinline__ void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets a grid that was launched behind this one start where there is room; it waits for this one's writes by itself.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace gpudnn::ptx
