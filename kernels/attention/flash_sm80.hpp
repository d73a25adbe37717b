// The launch functions of flash_sm80, and the tiles that its kernels are built for. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather_backward.hpp"

namespace gpudnn::kernels {

// Forward: rows of q and keys of a tile. `dim` is one of kFlashGatherDims.
constexpr std::int32_t flash_sm80_rows(int dim) { return dim == 256 ? 64 : 128; }
constexpr std::int32_t flash_sm80_columns(int dim) { return dim == 256 ? 32 : 64; }
// Backward: rows of the tile that a block holds, and of those that stream by.
constexpr std::int32_t flash_sm80_held(int dim) { return dim == 256 ? 64 : 128; }
constexpr std::int32_t flash_sm80_stream(int dim) { return dim == 256 ? 16 : 32; }

void launch_flash_forward_sm80(const FlashGatherParams& params, tile::ElementType type, int dim, CUstream_st* stream);
// From lse and delta, as launch_flash_gather_delta makes them. dk_dv: head dimensions up to 128; dk, dv: beyond.
void launch_flash_backward_sm80(const FlashGatherBackwardParams& params, FlashGradient gradient, CUstream_st* stream);

}  // namespace gpudnn::kernels
