// The tile of a matrix product on Hopper. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::kernels::gemm::sm90 {

// A tile of D for a block. Cooperative: the consumer warpgroups share its rows. Ping-pong: each consumer warpgroup
// takes a whole tile in turn, one multiplying while another stores. Swap-AB: for few rows; the tile's transpose is
// multiplied, so that B, which is most of the bytes, fills the 64 rows of wgmma, and A has the columns that it needs.
struct TileShape {
  const char* name;
  std::int16_t bm;
  std::int16_t bn;
  bool ping_pong;
  std::int8_t consumers;  // warpgroups that multiply
  std::int8_t stages;     // of the ring of k tiles in shared memory
  std::int8_t residency;  // blocks that fit a multiprocessor
  float efficiency;       // rate in a long reduction over the device's matrix rate
  bool swap_ab = false;

  // What wgmma multiplies: the rows of a block and its columns.
  [[nodiscard]] constexpr int wgmma_rows() const { return swap_ab ? bn : bm; }
  [[nodiscard]] constexpr int wgmma_columns() const { return swap_ab ? bm : bn; }
  // Blocks of 64 such rows of a consumer warpgroup.
  [[nodiscard]] constexpr int row_blocks() const { return wgmma_rows() / 64 / (ping_pong ? 1 : consumers); }
};

// Whether two blocks that share a reduction may exchange halves of the tile's columns (Store::halves): a warp's share
// of the sums, 8 rows of 128 bytes a row block and 32 columns, has room where its boxes are staged.
constexpr bool exchanges_halves(const TileShape& tile) {
  return !tile.swap_ab && !tile.ping_pong && tile.row_blocks() == 1 && tile.bn == 128;
}

// Whether a tile has the code that stores rows that begin anywhere (Store::lines); with two row blocks the compiler
// runs out of registers.
constexpr bool stores_lines(const TileShape& tile) {
  return !tile.swap_ab && tile.row_blocks() == 1 && tile.bn % 64 == 0;
}

constexpr int kRowBytes = 128;  // of an operand's row in shared memory: a k tile of a K-major one, 64 m or n else
constexpr int kMaxSplits = 8;   // blocks of a cluster on any device

}  // namespace gpudnn::kernels::gemm::sm90
