// Launches, by the runtime.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/failed_scope_cuda.hpp"
#include "core/launch/launch.hpp"

namespace gpudnn::cuda {
namespace {

// A launch in the runtime's terms. The runtime's struct points into this one.
struct RuntimeLaunch {
  cudaLaunchAttribute attributes[3];
  cudaLaunchConfig_t config = {};

  RuntimeLaunch(const LaunchConfig& launch, cudaStream_t stream) noexcept {
    config.gridDim = launch.blocks;
    config.blockDim = launch.threads;
    config.dynamicSmemBytes = launch.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    if (launch.cluster.x * launch.cluster.y * launch.cluster.z > 1) {
      cudaLaunchAttribute& cluster = add(cudaLaunchAttributeClusterDimension);
      cluster.val.clusterDim.x = launch.cluster.x;
      cluster.val.clusterDim.y = launch.cluster.y;
      cluster.val.clusterDim.z = launch.cluster.z;
    }
    if (launch.overlaps)
      add(cudaLaunchAttributeProgrammaticStreamSerialization).val.programmaticStreamSerializationAllowed = 1;
    if (launch.cooperative) add(cudaLaunchAttributeCooperative).val.cooperative = 1;
  }
  RuntimeLaunch(const RuntimeLaunch&) = delete;
  RuntimeLaunch& operator=(const RuntimeLaunch&) = delete;

 private:
  cudaLaunchAttribute& add(cudaLaunchAttributeID id) noexcept {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = id;
    return attribute;
  }
};

}  // namespace

cudaError_t launch(const void* kernel, const LaunchConfig& config, cudaStream_t stream, void** arguments) noexcept {
  if (const cudaError_t error = failed_scope(); error != cudaSuccess) return error;
  const RuntimeLaunch runtime(config, stream);
  return cudaLaunchKernelExC(&runtime.config, kernel, arguments);
}

cudaError_t max_resident_clusters(const void* kernel, const LaunchConfig& config, int* clusters) noexcept {
  const RuntimeLaunch runtime(config, nullptr);
  const cudaError_t error = cudaOccupancyMaxActiveClusters(clusters, kernel, &runtime.config);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

}  // namespace gpudnn::cuda
