// Where the TF32 filter gradient on wgmma keeps what: plain index maps, for the kernel and for its test on the host.
//
// TMA brings boxes of 32 pixels: a row of 128 bytes is a pixel's 32 filters (of dy) or channels (of x), its
// vectors of 16 bytes swizzled. wgmma wants the pixels, which are k, along its operands' rows. The order of k is free
// as long as both operands keep to it, and so is the order of the rows of C.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.hpp"

namespace gpudnn::kernels::sm90::wgrad_tf32 {

constexpr int kBoxSide = 32;  // pixels, and filters or channels
constexpr int kBoxBytes = kBoxSide * kRowBytes;

// The byte of a vector of 16 in rows of 128 that lie one after the other, as TMA and wgmma swizzle them.
constexpr int swizzled(int row, int vector) { return row * kRowBytes + ((vector ^ (row & 7)) << 4); }

// The pixel that position k of a block has: of 8 pixels first the even ones, then the odd ones. Then the 4 lanes of a
// fragment's row read pixels 2 apart, whose swizzles differ in the upper two bits.
constexpr int pixel_at(int position) { return position / 8 * 8 + position % 4 * 2 + position / 4 % 2; }

// --- A: fragments from the rows of dy -----------------------------------------------------------------------------

// Of a product of 64 rows, a thread holds rows g and g + 8 of its warp's 16, g = lane / 4, and columns t and t + 4,
// t = lane % 4. A warp's filters are contiguous: 16 for each block of 64 rows that its warpgroup has. Those of a thread
// are neighbours, so that one load brings both halves of a pair of rows, of all blocks.
constexpr int filter_of_fragment(int row_blocks, int warp, int lane, int block, int half) {
  return 2 * row_blocks * (8 * warp + lane / 4) + 2 * block + half;
}

// The byte of a stage of A with a thread's filters at columns t (0) or t + 4 (1) of the first 8 positions of k. The
// next 8 positions lie 8 rows further. `warp` counts over all consumers.
constexpr int fragment_at(int row_blocks, int warp, int lane, int column_half) {
  const int filter = filter_of_fragment(row_blocks, warp, lane, 0, 0);
  const int pixel = pixel_at(lane % 4 + 4 * column_half);
  return filter / kBoxSide * kBoxBytes + swizzled(pixel, filter % kBoxSide / 4) + filter % 4 * 4;
}

// --- B: boxes of x, transposed in place ---------------------------------------------------------------------------

// A warp takes a box apart into squares of 4 pixels x 4 channels, two to a lane, and puts them back transposed: a row
// is a channel, its vectors are 4 positions of k. In both directions the 8 lanes that an access serves at once meet 8
// different places of the swizzle.
struct Square {
  int channels;   // number of the vector of 4 channels
  int positions;  // number of the vector of 4 positions of k
};
constexpr Square square_of(int lane, int round) {
  const int low = lane % 8;
  const int bits_0_and_1_swapped = (low & 4) | (low & 1) << 1 | (low >> 1 & 1);
  return {low, bits_0_and_1_swapped ^ (lane / 8 + 4 * round)};
}
// The byte of a box with the channels of the square's pixel number i; and with the pixels of its channel number i.
constexpr int from_at(const Square& square, int i) {
  return swizzled(pixel_at(4 * square.positions + i), square.channels);
}
constexpr int to_at(const Square& square, int i) { return swizzled(4 * square.channels + i, square.positions); }

}  // namespace gpudnn::kernels::sm90::wgrad_tf32
