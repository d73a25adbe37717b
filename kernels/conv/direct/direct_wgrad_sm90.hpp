// The parameters of the Hopper direct filter gradient: plain data, shared by the launcher and the kernel. See
// direct_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels::direct_wgrad {

using tile::ElementType;
using tile::FastDivmod;
using tile::TensorMap;

constexpr int kFilters = 64;   // of a part
constexpr int kTaps = 3;       // of a part along w, at most
constexpr int kConsumers = 3;  // warpgroups, each with a row of taps
constexpr int kMaxStages = 16;
constexpr int kOctet = 8;  // pixels that an instruction takes of each of two rows
constexpr int kDyPixelBytes = 2 * kFilters;
constexpr int kAlignment = 1024;
constexpr int kRingOffset = kAlignment;  // the barriers lie before the rings
constexpr int kMaxBox = 256;             // pixels
constexpr std::uintptr_t kWorkspaceAlignment = 256;

// Channels of a part: those of a group, where one of 32 takes them all.
constexpr int part_channels(std::int64_t group_channels) { return group_channels <= 32 ? 32 : 64; }

struct Params {
  TensorMap x;       // a part's channels of a row of a strip with its halo
  TensorMap x_rest;  // the same of the pixels of a row of dy beyond its last whole octet
  TensorMap dy;      // 64 filters of a row of a strip

  // --- parts of dw: groups, filters, channels, and taps along d, h, w, the last being fastest
  FastDivmod parts;  // all
  FastDivmod tap_parts_w, tap_parts_h, taps_d, channel_parts, filter_parts;
  std::uint32_t part_channels = 64;
  std::uint32_t part_rows = 1;  // of taps, but for the last part along h
  std::uint32_t shares = 1;     // warpgroups that take pairs of rows in turn: three where a part has one row of taps

  // --- units: pairs of rows of dy, of a strip, a depth, an image
  FastDivmod pairs, strips, depths;
  std::uint32_t units = 0;
  std::uint32_t splits = 1;
  std::uint32_t tile_w = 0;  // a multiple of 8
  std::uint32_t out_w = 0;
  bool last_row_is_single = false;

  // --- the rings: stages of two rows of x and two of dy
  std::uint32_t stages = 0;
  std::uint32_t halo_pairs = 0;   // that x is ahead of dy
  std::uint32_t x_row_bytes = 0;  // in shared memory: a strip with its halo, and for each tap the rest's octet
  std::uint32_t rest_offset = 0;  // in a row
  std::uint32_t dy_row_bytes = 0;
  std::uint32_t x_box_bytes = 0;
  std::uint32_t rest_box_bytes = 0;
  std::uint32_t zero_offset = 0;  // a row of zeros after the rows of x, where the last row of dy is single
  std::uint32_t zero_end = 0;     // of what the block fills with zeros: 0 where nothing is
  std::uint32_t dy_offset = 0;
  std::uint32_t shared_bytes = 0;

  // --- the filter
  std::uint32_t taps[3] = {1, 1, 1};  // w, h, d
  std::int32_t pad[3] = {};
  std::int32_t dilation[3] = {1, 1, 1};
  std::uint32_t group_channels = 0;
  std::uint32_t group_filters = 0;
  bool mirrored = false;
  std::int64_t step_k = 0;  // of dw, in elements
  std::int64_t step_c = 0;
  std::int64_t step_tap[3] = {};

  // Filled in for each launch.
  float alpha = 1;
  float beta = 0;
  void* dw = nullptr;
  float* partials = nullptr;  // [part][row of taps][split, share][quad]
};
static_assert(sizeof(Params) <= 4096, "parameters of a kernel");

// Fours of sums, which stay together, of a row of taps.
constexpr std::uint32_t quads_of(std::uint32_t part_channels) { return kTaps * part_channels / 8 * 128; }

// The instance of a type, made in the file of the type.
template <class T>
void launch_of(const Params& params, CUstream_st* stream);

// Launches splits x parts blocks, and a second kernel that adds up their sums.
void launch(ElementType type, const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::direct_wgrad
