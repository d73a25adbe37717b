// Instances and launch of the normalization over segments.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/norm/launch_args.cuh"
#include "kernels/norm/segments_sm90.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

// Calls f.template operator()<T, kBackward>().
template <class F>
void with_instance(tile::ElementType type, bool backward, F&& f) {
  tile::with_element_type(type, [&]<class T>() {
    if constexpr (sizeof(T) < 8) backward ? f.template operator()<T, true>() : f.template operator()<T, false>();
  });
}

// `grid`: the blocks of all groups are resident at once; else a cluster for each group.
cuda::LaunchConfig launch_config(bool grid, int parts, int groups, int threads, int shared) {
  cuda::LaunchConfig config = cuda::clusters_of(groups, parts, threads, shared);
  if (grid) config.cluster = dim3(1);
  config.cooperative = grid;
  return config;
}

}  // namespace

int resident_segment_clusters(tile::ElementType type, bool backward, int parts, int threads, int shared) {
  int clusters = 0;
  with_instance(type, backward, [&]<class T, bool kBackward>() {
    constexpr auto kKernel = norm_segments<T, kBackward>;
    cuda::allow_shared_memory<kKernel>(cuda::kAllThatABlockMayHave);
    cudaError_t error;
    if (parts == 1) {
      int device = 0, multiprocessors = 0;
      (void)cudaGetDevice(&device);
      (void)cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      error =
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&clusters, kKernel, threads, static_cast<std::size_t>(shared));
      clusters *= multiprocessors;
    } else {
      error = cuda::max_resident_clusters(reinterpret_cast<const void*>(kKernel),
                                          launch_config(false, parts, 1, threads, shared), &clusters);
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
    cuda::allow_shared_memory<kKernel>(cuda::kAllThatABlockMayHave);
    error = cuda::launch_kernel(kKernel,
                                launch_config(segments.grid != 0, params.parts, segments.groups_at_once, params.threads,
                                              segment_shared_bytes(segments, params.parts, params.threads, kBackward)),
                                stream, norm_args<T>(params), segments);
  });
  if (error != cudaErrorCooperativeLaunchTooLarge) return true;  // any other stays with the runtime, as always
  (void)cudaGetLastError();
  return false;
}

}  // namespace gpudnn::kernels
