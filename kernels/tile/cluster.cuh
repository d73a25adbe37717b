// Thread-block clusters where the target has them, and single blocks elsewhere: one source for both.
//
// A launch asks for clusters of `size` blocks only on a device of compute capability 9.0. Code for an older
// target that nevertheless runs there (PTX of an older target, compiled by the driver) cannot see the other blocks of
// its cluster: there the first block of each does all the work and the others leave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::tile {

struct ClusterPlace {
  int rank;    // of this block in the cluster
  int blocks;  // that share the work
};

// Where the block stands; `rank` is not below `blocks` for a block that must leave at once.
__device__ __forceinline__ ClusterPlace cluster_place(int size) {
  const int rank = static_cast<int>(blockIdx.x) % size;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return {rank, size};
#else
  return {rank, 1};
#endif
}

// Waits for the cluster's blocks; after it, what they wrote to shared memory before is visible.
__device__ __forceinline__ void cluster_sync(int blocks) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    return;
  }
#endif
  __syncthreads();
}

// The same shared variable in block `rank` of the cluster.
template <class T>
__device__ __forceinline__ T* cluster_shared(T* mine, int rank, int blocks) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (blocks > 1) return static_cast<T*>(__cluster_map_shared_rank(mine, static_cast<unsigned>(rank)));
#endif
  return mine;
}

}  // namespace gpudnn::tile
