// The launch of one instance of flash_sm90's forward kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_sm90_forward.cuh"

namespace gpudnn::kernels::flash_sm90 {

// The counter of tiles that are handed out. The next kernel begins meanwhile, as each block's first tile is its own.
static __global__ void __launch_bounds__(32) flash_reset_sm90(std::int32_t* next_tile) {
  ptx::griddepcontrol_launch_dependents();
  *next_tile = 0;
}

template <class T, int kShape>
void launch_forward_shape(const FlashForwardParams& params, int multiprocessors, CUstream_st* stream) {
  constexpr FlashForwardShape kIts = kFlashForwardShapes[kShape];
  using C = ForwardConfig<T, kIts.dim_qk, kIts.dim_v, kIts.rows, kIts.columns, kIts.blocks, kIts.adds>;
  constexpr int kBytes = static_cast<int>(sizeof(ForwardShared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024 / kIts.blocks, "what blocks of Hopper may have");
  cuda::allow_shared_memory<&flash_forward_sm90<C>>(kBytes);
  if (params.next_tile != nullptr) cuda::launch_kernel(flash_reset_sm90, {1, 1}, stream, params.next_tile);
  const int places = kIts.blocks * multiprocessors;
  const int blocks = params.tiles < places ? params.tiles : places;
  cuda::LaunchConfig config{static_cast<unsigned>(blocks), C::kThreads, kBytes};
  config.overlaps = params.next_tile != nullptr;
  cuda::launch_kernel(flash_forward_sm90<C>, config, stream, params);
}

template <class T>
void launch_forward_type(const FlashForwardParams& params, int shape, int multiprocessors, CUstream_st* stream) {
  switch (shape) {
    case 0:
      return launch_forward_shape<T, 0>(params, multiprocessors, stream);
    case 1:
      return launch_forward_shape<T, 1>(params, multiprocessors, stream);
    case 2:
      return launch_forward_shape<T, 2>(params, multiprocessors, stream);
    case 3:
      return launch_forward_shape<T, 3>(params, multiprocessors, stream);
    case 4:
      return launch_forward_shape<T, 4>(params, multiprocessors, stream);
    case 5:
      return launch_forward_shape<T, 5>(params, multiprocessors, stream);
    case 6:
      return launch_forward_shape<T, 6>(params, multiprocessors, stream);
    case 7:
      return launch_forward_shape<T, 7>(params, multiprocessors, stream);
    case 8:
      return launch_forward_shape<T, 8>(params, multiprocessors, stream);
    default:
      return launch_forward_shape<T, kFlashForwardShapeCount - 1>(params, multiprocessors, stream);
  }
}

// Of flash_sm90_forward_bf16.cu and _f16.cu.
void launch_forward_bf16(const FlashForwardParams& params, int shape, int multiprocessors, CUstream_st* stream);
void launch_forward_f16(const FlashForwardParams& params, int shape, int multiprocessors, CUstream_st* stream);

}  // namespace gpudnn::kernels::flash_sm90
