// The parameters of the Hopper direct convolution: plain data, shared by the launcher and the kernel. See
// direct_sm90.cuh.
//
// Every problem is a correlation y[n, d, h, w, m] = sum over taps and k of x[n, d + t, h + r, w + s, k] * f[m, k, tap],
// shifted by `corner`: forward with m the filter and k the channel, the data gradient with m the channel, k the filter
// and the taps mirrored. "Input" is x or dy, "output" y or dx.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::direct {

using tile::ElementType;
using tile::FastDivmod;

// Positions that a warpgroup multiplies at once, output channels of a block, which operand is first, and the rate of
// such products in a long reduction over that of full ones. The numbers of positions follow the usual widths of images:
// see "direct_sm90" in docs/perf-notes.md.
struct Shape {
  int positions;
  int channels;
  bool filter_first;
  double efficiency;
  bool for_f32 = false;  // built for f32, too
};
constexpr Shape kShapes[] = {
    {256, 64, true, 1.08},  {232, 64, true, 1.08, true}, {208, 64, true, 1.08, true}, {136, 64, true, 1.08, true},
    {256, 32, false, 0.62}, {256, 8, false, 0.23},       {64, 32, false, 0.62},
};
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

constexpr int kConsumers = 2;  // warpgroups that take tiles in turn
constexpr int kMaxStages = 8;  // patches under way
constexpr int kAlignment = 1024;
constexpr int kBarrierBytes = kAlignment;    // the barriers' place before the patches
constexpr int kCoreBytes = 128;              // of the filter's 8 x 8 elements of 16 bits
constexpr int kFilterBlockBytes = 64 * 128;  // of f32: 64 m, 32 k
constexpr int kMaxFilterBlocks = 16;         // along k

// The driver's CUtensorMap.
struct alignas(128) TensorMap {
  std::uint64_t opaque[16];
};

// Every count of channels is in vectors of 16 bytes ("octets": 8 channels of 16 bits; of f32 they are 4), and every
// step of the reduction is 32 bytes, whatever the type.
struct Params {
  TensorMap input;
  TensorMap output;      // 16-bit types alone
  TensorMap filter_map;  // f32 alone

  // --- tiles: tile_h x tile_w pixels of the output; w is fastest, then h, d, the image
  FastDivmod tiles_w, tiles_h, depths;
  std::uint32_t tiles = 0;
  FastDivmod row_blocks;             // parts of the output's channels; a block of threads has one for ever
  FastDivmod group_parts;            // row blocks of a group
  std::uint32_t group_channels = 0;  // of the input
  std::int64_t group_filter_bytes = 0;
  std::int32_t tile_w = 0, tile_h = 0;
  std::int32_t corner[3] = {};  // of pixel 0's window in the input: w, h, d
  std::int32_t extent[2] = {};  // of the output: w, h

  // --- patches: of one depth and up to 128 bytes of channels, pitch positions a row
  FastDivmod stages;
  std::uint32_t stage_bytes = 0;
  std::uint32_t load_bytes = 0;
  std::uint32_t position_bytes = 0;  // 128, 64 or 32: the swizzle's width
  FastDivmod pitch;                  // positions of a patch's row
  std::uint32_t channel_blocks = 1;
  std::uint32_t block_channels = 0;
  std::uint32_t block_steps = 0;  // of 32 bytes of channels
  std::uint32_t last_steps = 0;   // of the last block
  std::uint32_t taps[3] = {1, 1, 1};
  std::uint64_t patch_descriptor = 0;  // but for the address

  // --- the filter in shared memory. 16-bit types: [tap][octet of k][octet of m] of 8 x 8 elements, rows of 8 k. f32:
  // [tap][block of 32 k][64 m], rows of 32 k in the swizzle of 128 bytes
  std::uint32_t m_octets = 0;         // of a block; of 16-bit types even but for positions first
  std::uint32_t k_octets = 0;         // even
  std::uint32_t all_m_octets = 0;     // of a group
  std::uint32_t k_blocks = 0;         // of f32
  std::uint32_t filter_channels = 0;  // of the tensor, in octets
  std::uint32_t filter_count = 0;
  std::uint32_t all_taps = 0;
  bool mirrored = false;
  bool transposed = false;          // m is the filter's channel
  FastDivmod filter_quads;          // fours of octets along the filter's channels
  std::uint32_t filter_items = 0;   // of fours, all filters' octets
  std::uint32_t filter_offset = 0;  // in shared memory
  std::uint32_t staging_offset = 0;
  std::uint32_t staging_bytes = 0;  // of a consumer
  // A pixel's row there: its octets, numbered by exclusive or with these bits of the pixel's number. TMA's
  // swizzle does the same.
  std::uint32_t spread_shift = 0;
  std::uint32_t spread_mask = 0;
  std::uint32_t shared_bytes = 0;

  // --- the epilogue
  FastDivmod tile_w_div;
  FastDivmod octets;                 // of a pixel in the staging area: m_octets
  std::int64_t addend_step[4] = {};  // bytes from pixel to pixel along w, h, d, n
  std::int64_t out_step[4] = {};     // the same, of f32
  std::int64_t bias_step = 0;        // bytes
  bool has_bias = false;
  bool float_vectors = false;  // the bias is of floats, else of the data's type
  // Filled in for each launch.
  bool is_plain = false;
  bool is_common = false;  // 16-bit types: combine_sums has the epilogue, the addend comes in boxes
  float alpha = 1;
  float addend_scale = 0;  // 0: the addend is not read
  gemm::ActivationArgs<float> activation;
  const void* addend = nullptr;
  const void* bias = nullptr;
  const void* filter = nullptr;  // 16-bit types alone
  void* out = nullptr;           // f32 alone
  TensorMap addend_map;          // where is_common: boxes as the output's
};

using LaunchShape = void (*)(const Params& params, std::uint32_t blocks, CUstream_st* stream);
// The instances of a type, made in the file of the type.
template <class T>
LaunchShape launch_of(int shape);

// Launches instance `shape` on `blocks` blocks, a multiple of the row blocks.
void launch(int shape, ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream);

}  // namespace gpudnn::kernels::direct
