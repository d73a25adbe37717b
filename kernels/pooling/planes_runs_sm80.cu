// Instances and launch of pooling of planes, several outputs of a row to a thread.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/pooling/planes_runs_sm80.cuh"

namespace gpudnn::kernels {
namespace {

template <auto kKernel, class T>
void launch_kernel(const PlanesFixedArgs<T>& args, const RunsGrid& grid, cudaStream_t stream) {
  cuda::allow_shared_memory<kKernel>(48 * 1024, true);
  cuda::launch_kernel(kKernel, {grid.blocks, kPlanesFixedThreads, grid.shared_bytes}, stream, args);
}

template <class T, int kStride>
void launch_mode(const PlanesFixedArgs<T>& args, bool max, bool nan, const RunsGrid& grid, cudaStream_t stream) {
  constexpr int kOut = run_outputs(sizeof(T), kStride);
  if constexpr (kStride == 1) {
    if (!max) return launch_kernel<pooling_planes_runs<T, kOut, 1, false, false>, T>(args, grid, stream);
  }
  if (nan) return launch_kernel<pooling_planes_runs<T, kOut, kStride, true, true>, T>(args, grid, stream);
  launch_kernel<pooling_planes_runs<T, kOut, kStride, true, false>, T>(args, grid, stream);
}

}  // namespace

template <class T>
void launch_pooling_planes_runs(const PlanesFixedArgs<T>& args, int stride, bool max, bool nan, const RunsGrid& grid,
                                CUstream_st* stream) {
  if constexpr (sizeof(T) == 2) {
    if (stride == 2) return launch_mode<T, 2>(args, max, nan, grid, stream);
  }
  launch_mode<T, 1>(args, max, nan, grid, stream);
}

template void launch_pooling_planes_runs(const PlanesFixedArgs<float>&, int, bool, bool, const RunsGrid&, CUstream_st*);
template void launch_pooling_planes_runs(const PlanesFixedArgs<tile::Half>&, int, bool, bool, const RunsGrid&,
                                         CUstream_st*);
template void launch_pooling_planes_runs(const PlanesFixedArgs<tile::BFloat16>&, int, bool, bool, const RunsGrid&,
                                         CUstream_st*);

}  // namespace gpudnn::kernels
