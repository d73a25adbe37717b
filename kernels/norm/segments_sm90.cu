// Instances and launch of the normalization over segments.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/launch_args.cuh"
#include "kernels/norm/segments_sm90.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/shared_memory.hpp"

namespace gpudnn::kernels {
namespace {

// Calls f.template operator()<T, kBackward>().
template <class F>
void with_instance(tile::ElementType type, bool backward, F&& f) {
  tile::with_element_type(type, [&]<class T>() {
    if constexpr (sizeof(T) < 8) backward ? f.template operator()<T, true>() : f.template operator()<T, false>();
  });
}

// `attribute` must live as long as the result.
cudaLaunchConfig_t launch_config(bool grid, int parts, int groups, int threads, int shared,
                                 cudaLaunchAttribute* attribute) {
  *attribute = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(groups * parts));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.attrs = attribute;
  if (grid) {
    attribute->id = cudaLaunchAttributeCooperative;
    attribute->val.cooperative = 1;
    config.numAttrs = 1;
  } else if (parts > 1) {
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = static_cast<unsigned>(parts);
    attribute->val.clusterDim.y = 1;
    attribute->val.clusterDim.z = 1;
    config.numAttrs = 1;
  }
  return config;
}

}  // namespace

int resident_segment_clusters(tile::ElementType type, bool backward, int parts, int threads, int shared) {
  int clusters = 0;
  with_instance(type, backward, [&]<class T, bool kBackward>() {
    constexpr auto kKernel = norm_segments<T, kBackward>;
    tile::allow_shared_memory<kKernel>(tile::kAllThatABlockMayHave);
    cudaError_t error;
    if (parts == 1) {
      int device = 0, multiprocessors = 0;
      (void)cudaGetDevice(&device);
      (void)cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      error =
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&clusters, kKernel, threads, static_cast<std::size_t>(shared));
      clusters *= multiprocessors;
    } else {
      cudaLaunchAttribute attribute;
      const cudaLaunchConfig_t config = launch_config(false, parts, 1, threads, shared, &attribute);
      error = cudaOccupancyMaxActiveClusters(&clusters, kKernel, &config);
    }
    if (error != cudaSuccess) {
      (void)cudaGetLastError();  // it is an answer, no failure of the call
      clusters = 0;
    }
  });
  return clusters;
}

bool launch_norm_segments(const NormParams& params, const NormSegments& segments, CUstream_st* stream) {
  cudaError_t error = cudaSuccess;
  with_instance(params.type, params.backward, [&]<class T, bool kBackward>() {
    constexpr auto kKernel = norm_segments<T, kBackward>;
    tile::allow_shared_memory<kKernel>(tile::kAllThatABlockMayHave);
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config =
        launch_config(segments.grid != 0, params.parts, segments.groups_at_once, params.threads,
                      segment_shared_bytes(segments, params.parts, params.threads, kBackward), &attribute);
    config.stream = stream;
    error = cudaLaunchKernelEx(&config, kKernel, norm_args<T>(params), segments);
  });
  if (error != cudaErrorCooperativeLaunchTooLarge) return true;  // any other stays with the runtime, as always
  (void)cudaGetLastError();
  return false;
}

}  // namespace gpudnn::kernels
