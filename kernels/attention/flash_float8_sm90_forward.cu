// The instances of flash_float8_sm90's forward kernel.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_float8_sm90_forward.cuh"

namespace gpudnn::kernels {
namespace {

template <int kShape>
void launch_shape(const FlashFloat8Params& params, int multiprocessors, CUstream_st* stream) {
  constexpr FlashFloat8Shape kIts = kFlashFloat8Shapes[kShape];
  using C = flash_sm90::Float8Config<kIts.dim_qk, kIts.dim_v, kIts.rows, kIts.columns>;
  constexpr int kBytes = static_cast<int>(sizeof(flash_sm90::Float8Shared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "what a block of Hopper may have");
  cuda::allow_shared_memory<&flash_sm90::flash_float8_forward_sm90<C>>(kBytes);
  const int blocks = params.tiles < multiprocessors ? params.tiles : multiprocessors;
  cuda::launch_kernel(
      flash_sm90::flash_float8_forward_sm90<C>,
      {.blocks = static_cast<unsigned>(blocks), .threads = C::kThreads, .shared_bytes = kBytes, .overlaps = true},
      stream, params);
}

}  // namespace

void launch_flash_float8_forward_sm90(const FlashFloat8Params& params, int shape, int multiprocessors,
                                      CUstream_st* stream) {
  switch (shape) {
    case 0:
      return launch_shape<0>(params, multiprocessors, stream);
    case 1:
      return launch_shape<1>(params, multiprocessors, stream);
    default:
      return launch_shape<2>(params, multiprocessors, stream);
  }
}

}  // namespace gpudnn::kernels
