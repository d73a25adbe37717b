// Tiles and parameters of the float convolution on bfloat16 tensor cores: plain data, shared by launcher and kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fp32_split/split_filter_sm90.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.hpp"

namespace gpudnn::kernels::fp32_split {

using sm90::Direction;

// Of the forward convolution and the data gradient. Rows of C are pixels, 64 for each of the two consumers.
// `efficiency` is the share of a third of the TF32 rate, at which six products of bfloat16 run.
constexpr sm90::TileShape kShapes[] = {
    {128, 128, false, 2, 4, 128, 0.80},
    {128, 64, false, 2, 6, 128, 0.70},
};
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

// Of the filter gradient: rows are filters, columns channels of taps.
constexpr sm90::TileShape kWgradShapes[] = {
    {128, 128, false, 2, 4, 128, 0.75, true},
    {64, 128, false, 1, 5, 128, 0.50, true},
};
constexpr int kWgradShapeCount = sizeof(kWgradShapes) / sizeof(kWgradShapes[0]);

// A batch of products is one matrix A, whose batches follow one another along its rows, each of so many whole tiles,
// with the batches' filters one after the other as rows of terms.
struct Params {
  sm90::Params gemm;
  const std::uint32_t* flags = nullptr;  // of the split filter; null: all of it is finite
  tile::FastDivmod m_tiles_of_batch = tile::FastDivmod(std::uint32_t{1} << 30);
  std::uint32_t b_rows_of_batch = 0;
  // Bytes from channel to channel of C and of the addend, where channels are not neighbours; else 0.
  std::int64_t c_column_step = 0;
  std::int64_t addend_column_step = 0;
};

// On `blocks` blocks; `shape` is a row of kShapes.
void launch(int shape, Direction direction, const Params& params, std::uint32_t blocks, CUstream_st* stream);

// A group is a batch of its own in the filter gradient of a batch of products: its pixels lie k_tiles_of_group k tiles
// behind those of the group before, its channels at the same place.
struct WgradParams {
  sm90::Params gemm;
  std::uint32_t k_tiles_of_group = 0;
  // Rows of both operands are complex numbers: of the four products of two of them, x conj(dy) is stored, a complex row
  // for two of the floats' rows. Without splits, plain or added to what is there.
  bool is_complex = false;
};
void launch_wgrad(int shape, const WgradParams& params, std::uint32_t blocks, CUstream_st* stream);

using LaunchShape = void (*)(const Params& params, std::uint32_t blocks, CUstream_st* stream);
template <Direction kDirection>
LaunchShape launch_of(int shape);

}  // namespace gpudnn::kernels::fp32_split
