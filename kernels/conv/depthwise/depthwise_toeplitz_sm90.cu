// Instances and the launch of the depthwise convolution by Toeplitz matrices.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/depthwise/depthwise_toeplitz_sm90.cuh"
#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::depthwise_toeplitz {
namespace {

using LaunchRow = void (*)(const Params&, CUstream_st*);

template <class T, int kRow>
void launch_row(const Params& params, CUstream_st* stream) {
  constexpr auto kKernel = &depthwise_toeplitz_kernel<T, kRow>;
  cuda::allow_shared_memory<kKernel>(kMaxShared, true);
  cuda::launch_kernel(kKernel,
                      {.blocks = params.thread_blocks, .threads = 32 * kWarps, .shared_bytes = params.shared_bytes},
                      stream, params);
}

template <class T>
void launch_of_type(int row, const Params& params, CUstream_st* stream) {
  tile::entry_at<kTileCount>(row, [](auto tile_row) -> LaunchRow { return &launch_row<T, tile_row()>; })(params,
                                                                                                         stream);
}

}  // namespace

void launch(int row, ElementType type, const Params& params, CUstream_st* stream) {
  if (type == ElementType::f16) {
    launch_of_type<tile::Half>(row, params, stream);
  } else {
    launch_of_type<tile::BFloat16>(row, params, stream);
  }
}

}  // namespace gpudnn::kernels::depthwise_toeplitz
