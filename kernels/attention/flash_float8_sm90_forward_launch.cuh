// The launch of flash_float8_sm90's forward kernel for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_float8_sm90_forward.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kShape>
void launch_float8_shape(const FlashFloat8Params& params, int multiprocessors, CUstream_st* stream) {
  constexpr FlashFloat8Shape kIts = kFlashFloat8Shapes[kShape];
  using C = Float8Config<T, kIts.dim_qk, kIts.dim_v, kIts.rows, kIts.columns>;
  constexpr int kBytes = static_cast<int>(sizeof(Float8Shared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "what a block of Hopper may have");
  cuda::allow_shared_memory<&flash_float8_forward_sm90<C>>(kBytes);
  const int blocks = params.tiles < multiprocessors ? params.tiles : multiprocessors;
  cuda::launch_kernel(flash_float8_forward_sm90<C>, {static_cast<unsigned>(blocks), C::kThreads, kBytes}, stream,
                      params);
}

template <class T>
void launch_float8_type(const FlashFloat8Params& params, int shape, int multiprocessors, CUstream_st* stream) {
  switch (shape) {
    case 0:
      return launch_float8_shape<T, 0>(params, multiprocessors, stream);
    case 1:
      return launch_float8_shape<T, 1>(params, multiprocessors, stream);
    case 2:
      return launch_float8_shape<T, 2>(params, multiprocessors, stream);
    default:
      return launch_float8_shape<T, 3>(params, multiprocessors, stream);
  }
}

// Of flash_float8_sm90_forward_e5m2.cu.
void launch_float8_e5m2(const FlashFloat8Params& params, int shape, int multiprocessors, CUstream_st* stream);

}  // namespace gpudnn::kernels::flash_sm90
