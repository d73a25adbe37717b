// The launches of flash_wide_backward_sm90 for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_wide_backward_sm90.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T>
void launch_wide_type(const FlashWideBackwardParams& params, const FlashWideDqParams& dq, CUstream_st* stream) {
  using C = WideConfig<T>;
  constexpr int kBytes = static_cast<int>(sizeof(WideShared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "what a block of Hopper may have");
  cuda::allow_shared_memory<&flash_wide_backward_sm90<C>>(kBytes);
  cuda::LaunchConfig config = cuda::clusters_of(params.clusters, C::kBlocks, C::kThreads, kBytes);
  config.overlaps = true;
  cuda::launch_kernel(flash_wide_backward_sm90<C>, config, stream, params);
  if (dq.tiles == nullptr) return;
  const auto tiles = static_cast<unsigned>(dq.query_tiles * dq.batch_heads);
  cuda::launch_kernel(flash_wide_dq_sm90<C>, {.blocks = tiles, .threads = C::kDqFloats / 32, .overlaps = true}, stream,
                      dq);
}

template <class T>
void launch_wide_sums(const FlashWideSumParams& params, CUstream_st* stream) {
  const std::int64_t threads = static_cast<std::int64_t>(params.mask.length_kv) * (params.built_dim / 8);
  const dim3 blocks(static_cast<unsigned>((threads + kWideSumThreads - 1) / kWideSumThreads),
                    static_cast<unsigned>(params.batch * params.heads));
  cuda::launch_kernel(flash_wide_sums_sm90<T>, {blocks, kWideSumThreads}, stream, params);
}

// Of flash_wide_backward_sm90_f16.cu.
void launch_wide_f16(const FlashWideBackwardParams& params, const FlashWideDqParams& dq, CUstream_st* stream);
void launch_wide_sums_f16(const FlashWideSumParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::flash_sm90
