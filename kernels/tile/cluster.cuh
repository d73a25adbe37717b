// Thread-block clusters where the target has them, and single blocks elsewhere: one source for both.
//
// A launch asks for clusters of `size` blocks only on a device of compute capability 9.0 or more. Code for an older
// target that nevertheless runs there (PTX of an older target, compiled by the driver) cannot see the other blocks of
// its cluster: there the first block of each does all the work and the others leave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

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

// Launches `clusters` clusters of `size` blocks each, every block with `shared` bytes of dynamic shared memory.
template <class... Parameters, class... Arguments>
void launch_clusters_shared(void (*kernel)(Parameters...), std::int64_t clusters, int size, int threads, int shared,
                            cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(clusters * size));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(size);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = size > 1 ? 1 : 0;
  // A failure stays with the runtime until cudaGetLastError, as with any launch.
  (void)cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// The same without dynamic shared memory.
template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), std::int64_t clusters, int size, int threads, cudaStream_t stream,
                     Arguments&&... arguments) {
  launch_clusters_shared(kernel, clusters, size, threads, 0, stream, arguments...);
}

// Clusters of this kernel, with `size` blocks each, that the device runs side by side; 0 if it takes none of that size.
// More than 8 blocks are not promised by the architecture and hang on how its multiprocessors are grouped. Asked once
// for each device, kernel and size.
template <auto kKernel, int kSize, int kThreads>
int resident_clusters() {
  static std::atomic<int> known[16] = {};  // one more than the answer; devices beyond are asked every time
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (device < 16) {
    if (const int answer = known[device].load(std::memory_order_relaxed); answer > 0) return answer - 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kSize);
  config.blockDim = dim3(kThreads);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = kSize;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  if ((kSize > 8 && cudaFuncSetAttribute(kKernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess) ||
      cudaOccupancyMaxActiveClusters(&clusters, kKernel, &config) != cudaSuccess) {
    (void)cudaGetLastError();  // it is an answer, no failure of the call
    clusters = 0;
  }
  if (device < 16) known[device].store(clusters + 1, std::memory_order_relaxed);
  return clusters;
}

}  // namespace gpudnn::tile
