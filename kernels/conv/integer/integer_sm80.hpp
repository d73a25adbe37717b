// The tiles of the mma.sync convolution of integers: plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/integer/integer.hpp"

namespace gpudnn::kernels::integer {

struct Sm80Tile {
  int bm, bn;
  int warps_m, warps_n;
};
constexpr Sm80Tile kSm80Tiles[] = {{128, 128, 2, 4}, {64, 64, 2, 2}};
constexpr int kSm80TileCount = sizeof(kSm80Tiles) / sizeof(kSm80Tiles[0]);
constexpr int kSm80Chunk = 16;         // channels of a copy of 16 bytes
constexpr int kSm80ChunksOfStage = 4;  // of a row
constexpr int kSm80Stages = 4;

// kVector: bytes in which channels come, 16 or 4.
void launch_sm80(int tile, int vector, const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::integer
