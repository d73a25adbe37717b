// Parameters of the Winograd convolution (3x3 filters, stride 1) through a stored transform: plain data.
//
// An m x m tile of the output is A^T [ (G g G^T) . (B^T d B) ] A, with d the (m + 2) x (m + 2) tile of the input, g the
// filter, and the dot a product of each of the (m + 2)^2 points, summed over the channels. For all tiles and channels
// together that is a matrix product for each point (batched_product_simt.hpp):
//
//                    A (k x m)              B (k x n)              C (m x n)
//   forward          filter (c, k)          x (c, tile)            y (k, tile)
//   data gradient    rotated filter (k, c)  dy (k, tile)           dx (c, tile)
//   filter gradient  dy (tile, k)           x (tile, c)            dw (k, c)
//
// Where the result has its channels innermost, forward and data gradient take A for B, so that C is (tile, k). In the
// filter gradient dy's m x m tile stands for the filter and dw's 3 x 3 for the result: F(3x3, mxm) has the same points
// and the same B. Sizes and strides are in floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/conv/epilogue_params.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::winograd {

using tile::FastDivmod;

constexpr int kFilter = 3;
// Outputs of a tile along each side.
constexpr int kOutputTiles[] = {4, 2};
constexpr int points_of(int m) { return (m + kFilter - 1) * (m + kFilter - 1); }

// An image tensor.
struct Image {
  std::int64_t n = 0, c = 0, h = 0, w = 0;  // strides
  std::int32_t height = 0, width = 0;
};

// A transformed tensor of (point, group, channel, tile) elements.
struct Transformed {
  std::int64_t point = 0, group = 0, channel = 0, tile = 0;  // strides
};

// The tiles of an image tensor, and which of them a launch takes.
struct Tiles {
  FastDivmod per_row, per_column;  // of an image
  std::int64_t first = 0;          // a launch's first tile of all images' ...
  std::int32_t count = 0;          // ... and how many
  std::int32_t channels = 0;       // of all groups
  FastDivmod group_channels;
  // winograd_sm90 alone:
  std::int32_t padded = 0;    // tiles that the transform has room for
  FastDivmod channel_blocks;  // of all channels
};

// From an image tensor to its transform.
struct DataParams {
  const float* in = nullptr;
  float* out = nullptr;
  Image image;
  std::int32_t origin_h = 0, origin_w = 0;  // of the first tile
  std::int32_t step = 0;                    // from tile to tile
  Tiles tiles;
  Transformed transformed;
  bool along_channels = false;  // lanes read neighbouring channels, else neighbouring tiles
  bool staged = false;          // the transform is contiguous along the other
  // winograd_sm90 alone: the 4 pixels of a row that no neighbouring tile owns are an aligned vector, inside of the
  // image.
  bool vectors = false;
};

struct FilterParams {
  const float* in = nullptr;
  float* out = nullptr;
  std::int64_t group = 0, outer = 0, inner = 0, r = 0, s = 0;  // strides; r and s negative where taps are mirrored
  std::int32_t outer_count = 0;                                // of a group: channels of the result
  std::int32_t inner_count = 0;                                // channels that are summed
  std::int32_t groups = 1;
  std::int64_t point = 0, out_group = 0, out_inner = 0;  // strides of the transform, contiguous along outer
};

// From the product to the image tensor.
struct OutputParams : conv::ScaledEpilogueParams {
  const float* in = nullptr;
  bool vectors = false;  // whole aligned rows of a tile

  Image image;
  Image addend_image;
  Tiles tiles;
  Transformed transformed;
  bool along_channels = false;
};

// From the product's splits to the filter gradient.
struct FilterOutputParams {
  const float* in = nullptr;
  float* out = nullptr;
  float alpha = 1;
  float beta = 0;
  std::int64_t k = 0, c = 0, r = 0, s = 0;  // strides; r and s negative where taps are mirrored
  std::int32_t group_outputs = 0, group_inputs = 0, groups = 1;
  std::int64_t point = 0, group = 0, row = 0, split = 0;  // strides of the product
  std::int32_t splits = 1;
};

// All of F(2x2, 3x3) in one kernel: the parameters of what it loads and stores. Nothing of the transforms is stored.
struct FusedParams {
  DataParams data;
  FilterParams filter;
  OutputParams output;
};
constexpr int kFusedChannels = 64;  // of the result, and tiles, of a block
constexpr int kFusedTiles = 32;
void launch_fused(const FusedParams& params, CUstream_st* stream);

// m: outputs of a tile. `as_filter`: the tile of dy in the filter gradient.
void launch_data(int m, bool as_filter, const DataParams& params, CUstream_st* stream);
void launch_filter(int m, const FilterParams& params, CUstream_st* stream);
void launch_output(int m, const OutputParams& params, CUstream_st* stream);
void launch_filter_output(int m, const FilterOutputParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::winograd
