// The launches of flash_fused_backward_sm90 for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_fused_backward_sm90.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class C>
void launch_fused_config(const FlashFusedBackwardParams& params, const FlashFusedDqParams& dq, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(FusedShared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "what a block of Hopper may have");
  cuda::allow_shared_memory<&flash_fused_backward_sm90<C>>(kBytes);
  const auto blocks = static_cast<unsigned>(params.blocks);
  cuda::launch_kernel(flash_fused_backward_sm90<C>,
                      {.blocks = blocks, .threads = C::kThreads, .shared_bytes = kBytes, .overlaps = true}, stream,
                      params);
  if constexpr (!C::kDqIsWhole) {
    if (dq.tiles == nullptr) return;
    const auto tiles = static_cast<unsigned>(dq.query_tiles * dq.batch_heads);
    cuda::launch_kernel(flash_fused_dq_sm90<C>, {.blocks = tiles, .threads = C::kDqFloats / 32, .overlaps = true},
                        stream, dq);
  }
}

template <class T, FusedKind kKind>
void launch_fused_kind(const FlashFusedBackwardParams& params, const FlashFusedDqParams& dq, int dim,
                       CUstream_st* stream) {
  if (dim == 64) return launch_fused_config<FusedConfig<T, 64, kKind>>(params, dq, stream);
  launch_fused_config<FusedConfig<T, 128, kKind>>(params, dq, stream);
}
template <class T>
void launch_fused_type(const FlashFusedBackwardParams& params, const FlashFusedDqParams& dq, int dim,
                       CUstream_st* stream) {
  if (dim == 192) return launch_fused_config<FusedConfig<T, 192, FusedKind::plain>>(params, dq, stream);
  if (dim == 96) return launch_fused_config<FusedConfig<T, 96, FusedKind::plain>>(params, dq, stream);
  if (params.drops) return launch_fused_kind<T, FusedKind::kept>(params, dq, dim, stream);
  if (params.has_options_of_keys) return launch_fused_kind<T, FusedKind::keyed>(params, dq, dim, stream);
  if (params.has_bias) return launch_fused_kind<T, FusedKind::biased>(params, dq, dim, stream);
  if (params.dq_is_whole) return launch_fused_config<FusedConfig<T, 64, FusedKind::whole>>(params, dq, stream);
  launch_fused_kind<T, FusedKind::plain>(params, dq, dim, stream);
}

// Of flash_fused_backward_sm90_f16.cu.
void launch_fused_f16(const FlashFusedBackwardParams& params, const FlashFusedDqParams& dq, int dim,
                      CUstream_st* stream);

}  // namespace gpudnn::kernels::flash_sm90
