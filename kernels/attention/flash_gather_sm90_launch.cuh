// The launch of flash_gather_sm90's instances of one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_gather_sm90.cuh"

namespace gpudnn::kernels::flash_sm90 {

// The counter of tiles that are handed out. The next kernel begins meanwhile, as each block's first tile is its own.
static __global__ void __launch_bounds__(32) gather_reset_sm90(std::int32_t* next_tile) {
  ptx::griddepcontrol_launch_dependents();
  *next_tile = 0;
}

template <class T, int kDim, int kConsumers, FlashGatherKind kKind = FlashGatherKind::general>
void launch_gather_shape(const FlashGatherParams& params, int multiprocessors, CUstream_st* stream) {
  using C = GatherConfig<T, kDim, kConsumers, kKind>;
  constexpr int kBytes = static_cast<int>(sizeof(GatherShared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "what a block of Hopper may have");
  cuda::allow_shared_memory<&flash_gather_sm90<C>>(kBytes);
  if (params.next_tile != nullptr) cuda::launch_kernel(gather_reset_sm90, {1, 1}, stream, params.next_tile);
  // Splits are one round of blocks, whose sums the next kernel waits for.
  const int tiles = params.row_tiles * params.batch_heads * params.splits;
  const auto blocks = static_cast<unsigned>(params.splits == 1 && tiles > multiprocessors ? multiprocessors : tiles);
  cuda::LaunchConfig config{blocks, C::kThreads, kBytes};
  config.overlaps = params.next_tile != nullptr;
  cuda::launch_kernel(flash_gather_sm90<C>, config, stream, params);
  if (params.splits > 1) launch_flash_combine(params, stream);
}

template <class T, FlashGatherKind kKind>
void launch_gather_kind(const FlashGatherParams& params, int dim, int multiprocessors, CUstream_st* stream) {
  if (dim == 64) return launch_gather_shape<T, 64, 2, kKind>(params, multiprocessors, stream);
  launch_gather_shape<T, 128, 2, kKind>(params, multiprocessors, stream);
}

template <class T, int kConsumers>
void launch_gather_dim(const FlashGatherParams& params, int dim, int multiprocessors, CUstream_st* stream) {
  if (dim == 64) return launch_gather_shape<T, 64, kConsumers>(params, multiprocessors, stream);
  if (dim == 128) return launch_gather_shape<T, 128, kConsumers>(params, multiprocessors, stream);
  launch_gather_shape<T, 256, kConsumers>(params, multiprocessors, stream);
}

template <class T>
void launch_gather_type(const FlashGatherParams& params, int dim, int consumers, int multiprocessors,
                        CUstream_st* stream) {
  if (params.kind == FlashGatherKind::plain) {
    return launch_gather_kind<T, FlashGatherKind::plain>(params, dim, multiprocessors, stream);
  }
  if (params.kind == FlashGatherKind::biased) {
    return launch_gather_kind<T, FlashGatherKind::biased>(params, dim, multiprocessors, stream);
  }
  if (consumers == 1) return launch_gather_dim<T, 1>(params, dim, multiprocessors, stream);
  launch_gather_dim<T, 2>(params, dim, multiprocessors, stream);
}

// Of flash_gather_sm90_bf16.cu and _f16.cu.
void launch_gather_bf16(const FlashGatherParams& params, int dim, int consumers, int multiprocessors,
                        CUstream_st* stream);
void launch_gather_f16(const FlashGatherParams& params, int dim, int consumers, int multiprocessors,
                       CUstream_st* stream);

}  // namespace gpudnn::kernels::flash_sm90
