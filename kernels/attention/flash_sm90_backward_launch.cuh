// The launches of flash_sm90's backward kernels for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_sm90_backward.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class C>
void launch_backward_config(const FlashBackwardParams& params, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(BackwardShared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "what a block of Hopper may have");
  cuda::allow_shared_memory<&flash_backward_sm90<C>>(kBytes);
  const auto blocks = static_cast<unsigned>(params.tiles_of_head * params.batch_heads);
  cuda::launch_kernel(flash_backward_sm90<C>, {blocks, C::kThreads, kBytes}, stream, params);
}

template <class T>
void launch_backward_type(const FlashBackwardParams& params, int dim, bool of_keys, CUstream_st* stream) {
  if (dim == 64) {
    return of_keys ? launch_backward_config<BackwardConfig<T, 64, true>>(params, stream)
                   : launch_backward_config<BackwardConfig<T, 64, false>>(params, stream);
  }
  return of_keys ? launch_backward_config<BackwardConfig<T, 128, true>>(params, stream)
                 : launch_backward_config<BackwardConfig<T, 128, false>>(params, stream);
}

template <class T>
void launch_delta_type(const FlashDeltaParams& params, CUstream_st* stream) {
  const std::int64_t rows = params.pitch * params.batch_heads;
  cuda::launch_kernel(flash_delta_sm90<T>, {static_cast<unsigned>((rows + 15) / 16), 256}, stream, params);
}

// Of flash_sm90_backward_f16.cu.
void launch_backward_f16(const FlashBackwardParams& params, int dim, bool of_keys, CUstream_st* stream);
void launch_delta_f16(const FlashDeltaParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::flash_sm90
