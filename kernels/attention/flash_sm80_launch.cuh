// The launches of flash_sm80's kernels for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_sm80_backward.cuh"
#include "kernels/attention/flash_sm80_forward.cuh"

namespace gpudnn::kernels::flash_sm80 {

constexpr int kSharedLimit = 99 * 1024;  // bytes of a block, where a multiprocessor has 100 KiB

template <class T, int kDim>
void launch_forward_dim(const FlashGatherParams& params, CUstream_st* stream) {
  using C = ForwardConfig<T, kDim>;
  constexpr int kBytes = static_cast<int>(sizeof(ForwardShared<C>)) + kPanelBytes;
  static_assert(kBytes <= kSharedLimit, "what a block may have everywhere from Ampere on");
  cuda::allow_shared_memory<&flash_forward_sm80<C>>(kBytes, true);
  const auto blocks = static_cast<unsigned>(params.row_tiles * params.batch_heads * params.splits);
  cuda::launch_kernel(flash_forward_sm80<C>, {blocks, C::kThreads, kBytes}, stream, params);
  if (params.splits > 1) launch_flash_combine(params, stream);
}

template <class T>
void launch_forward_type(const FlashGatherParams& params, int dim, CUstream_st* stream) {
  if (dim == 64) return launch_forward_dim<T, 64>(params, stream);
  if (dim == 128) return launch_forward_dim<T, 128>(params, stream);
  launch_forward_dim<T, 256>(params, stream);
}

template <class T, int kDim, FlashGradient kGradient>
void launch_gradient(const FlashGatherBackwardParams& params, CUstream_st* stream) {
  using C = BackwardConfig<T, kDim, kGradient>;
  constexpr int kBytes = static_cast<int>(sizeof(BackwardShared<C>)) + kPanelBytes;
  static_assert(kBytes <= kSharedLimit, "what a block may have everywhere from Ampere on");
  cuda::allow_shared_memory<&flash_backward_sm80<C>>(kBytes, true);
  const std::int64_t length = C::kOfKeys ? params.mask.length_kv : params.mask.length_q;
  const std::int64_t heads = C::kOfKeys ? params.problem.heads_k : params.problem.heads_q;
  const std::int64_t blocks = (length + C::kRows - 1) / C::kRows * heads * params.problem.batch;
  cuda::launch_kernel(flash_backward_sm80<C>, {static_cast<unsigned>(blocks), C::kThreads, kBytes}, stream, params);
}

template <class T>
void launch_backward_type(const FlashGatherBackwardParams& params, FlashGradient gradient, CUstream_st* stream) {
  const std::int32_t dim = params.problem.dim_qk > params.problem.dim_v ? params.problem.dim_qk : params.problem.dim_v;
  switch (gradient) {
    case FlashGradient::dq:
      if (dim <= 64) return launch_gradient<T, 64, FlashGradient::dq>(params, stream);
      if (dim <= 128) return launch_gradient<T, 128, FlashGradient::dq>(params, stream);
      return launch_gradient<T, 256, FlashGradient::dq>(params, stream);
    case FlashGradient::dk_dv:
      if (dim <= 64) return launch_gradient<T, 64, FlashGradient::dk_dv>(params, stream);
      return launch_gradient<T, 128, FlashGradient::dk_dv>(params, stream);
    case FlashGradient::dk:
      return launch_gradient<T, 256, FlashGradient::dk>(params, stream);
    default:
      return launch_gradient<T, 256, FlashGradient::dv>(params, stream);
  }
}

// Of flash_forward_sm80_f16.cu and flash_backward_sm80_f16.cu.
void launch_forward_f16(const FlashGatherParams& params, int dim, CUstream_st* stream);
void launch_backward_f16(const FlashGatherBackwardParams& params, FlashGradient gradient, CUstream_st* stream);

}  // namespace gpudnn::kernels::flash_sm80
