// The launches of flash_gather_backward_sm90's kernels for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_gather_backward_sm90.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDim, FlashGradient kGradient>
void launch_gather_gradient(const FlashGatherBackwardParams& params, CUstream_st* stream) {
  using C = GatherBackwardConfig<T, kDim, kGradient>;
  constexpr int kBytes = static_cast<int>(sizeof(GatherBackwardShared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "what a block of Hopper may have");
  cuda::allow_shared_memory<&flash_gather_backward_sm90<C>>(kBytes);
  const std::int64_t length = C::kOfKeys ? params.mask.length_kv : params.mask.length_q;
  const std::int64_t heads = C::kOfKeys ? params.problem.heads_k : params.problem.heads_q;
  const std::int64_t parts = C::kOfKeys ? params.parts : 1;
  const std::int64_t blocks = (length + C::kRows - 1) / C::kRows * heads * params.problem.batch * parts;
  cuda::launch_kernel(flash_gather_backward_sm90<C>, {static_cast<unsigned>(blocks), C::kThreads, kBytes}, stream,
                      params);
  if constexpr (C::kOfKeys) {
    if (params.parts == 1) return;
    const std::int64_t chunks = length * (C::kDim / 8);
    const cuda::LaunchConfig config{dim3(static_cast<unsigned>((chunks + kSumPartsThreads - 1) / kSumPartsThreads),
                                         static_cast<unsigned>(heads * params.problem.batch)),
                                    kSumPartsThreads};
    if (C::kMakesFirst && params.problem.dk.data != nullptr)
      cuda::launch_kernel(flash_gather_sum_parts<C>, config, stream, params, false);
    if (C::kMakesDv && params.problem.dv.data != nullptr)
      cuda::launch_kernel(flash_gather_sum_parts<C>, config, stream, params, true);
  }
}

template <class T>
void launch_gather_backward_type(const FlashGatherBackwardParams& params, FlashGradient gradient, CUstream_st* stream) {
  const std::int32_t dim = params.problem.dim_qk > params.problem.dim_v ? params.problem.dim_qk : params.problem.dim_v;
  switch (gradient) {
    case FlashGradient::dq:
      if (dim <= 64) return launch_gather_gradient<T, 64, FlashGradient::dq>(params, stream);
      if (dim <= 128) return launch_gather_gradient<T, 128, FlashGradient::dq>(params, stream);
      return launch_gather_gradient<T, 256, FlashGradient::dq>(params, stream);
    case FlashGradient::dk_dv:
      if (dim <= 64) return launch_gather_gradient<T, 64, FlashGradient::dk_dv>(params, stream);
      return launch_gather_gradient<T, 128, FlashGradient::dk_dv>(params, stream);
    case FlashGradient::dk:
      return launch_gather_gradient<T, 256, FlashGradient::dk>(params, stream);
    default:
      return launch_gather_gradient<T, 256, FlashGradient::dv>(params, stream);
  }
}

// Of flash_gather_backward_sm90_f16.cu.
void launch_gather_backward_f16(const FlashGatherBackwardParams& params, FlashGradient gradient, CUstream_st* stream);

}  // namespace gpudnn::kernels::flash_sm90
