// The parameters of the float convolution whose filter fits shared memory: plain data, shared by the launcher and the
// kernel. See few_terms_simt.cuh.
//
//   out[n, m, h, w] = sum over c, r, s of in[n, c, h * stride - pad + r * dilation, ...] * filter[m, c, r, s]
//
// Forward, in is x and m the filter. The data gradient of stride 1 is the same with in dy, m the channel, c the filter,
// and the taps from the last one on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/epilogue_params.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::few_terms {

using tile::FastDivmod;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr std::size_t kMaxShared = 48 * 1024;
constexpr std::size_t kMaxSharedOfRows = 32 * 1024;  // beside a warp's elements
// Filters are 5 wide, whose rows a thread loads at once; of one tap; or 9 x 9 with steps of 1, where a thread has
// several pixels, one under the other.
constexpr std::uint32_t kChannelsAtOnce = 8;  // of one tap
constexpr int kSize = 9;
constexpr int kSizePitch = 12;  // floats from a row of such a filter to the next in shared memory: whole vectors

// `outputs` channels for a thread, of `rows` pixels; `slices` threads share a pixel's sum.
struct TileRow {
  int outputs;
  int slices;
  int rows = 1;
};
constexpr int kRows = 4;
constexpr TileRow kTiles[] = {{4, 1}, {4, 4}, {1, 1}, {1, 4}, {1, 8}, {4, 8}, {1, kWarps, kRows}};
constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

// Where elements lie, in elements. Axis 0 is w, 1 is h.
struct Image {
  std::int32_t image = 0;
  std::int32_t channel = 0;
  std::int32_t axis[2] = {};
};

struct Params : conv::ScaledEpilogueParams {
  const float* in = nullptr;
  const float* filter = nullptr;  // its first tap in the order of the sum
  std::uint32_t pixels = 0;       // of out
  std::uint32_t outputs = 0;
  std::uint32_t channels = 0;  // that are summed over
  FastDivmod extent[2];        // of out; with `rows` its tiles
  std::uint32_t out_rows = 0, out_columns = 0;
  FastDivmod taps[2];  // w, h
  std::int32_t in_extent[2] = {1, 1};
  std::int32_t pad[2] = {};
  std::int32_t stride[2] = {1, 1};
  std::int32_t dilation[2] = {1, 1};
  Image in_at, filter_at, out_at, addend_at;  // of the filter: the image is an output channel
};

// Bytes of shared memory of a block: the filter, and then the sums of slices.
constexpr std::size_t shared_bytes(const TileRow& row, std::size_t terms) {
  const std::size_t floats = row.rows > 1 ? terms / kSize * kSizePitch : terms * static_cast<std::size_t>(row.outputs);
  const std::size_t filter = floats * sizeof(float);
  const std::size_t sums =
      row.slices > 1 ? sizeof(float) * kThreads * static_cast<std::size_t>(row.outputs * row.rows) : 0;
  return filter > sums ? filter : sums;
}

void launch(int tile, const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::few_terms
