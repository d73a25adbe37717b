// How samples of a channels-last tensor are cut for the kernel of channels_last_sm90.cuh. Plain data, from the shape
// and the device alone, as the workspace is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace gpudnn::kernels {

struct LayerNormParams;

constexpr int kLnLastThreads = 320;       // of a block that compute, at most; 32 more fill, 32 join
constexpr int kLnLastFlight = 2;          // pixels of a chunk for each thread
constexpr int kLnLastMaxStages = 16;      // chunks in a block's shared memory
constexpr int kLnLastBytes = 113 * 1024;  // of shared memory: two blocks of a multiprocessor
constexpr int kLnLastMaxMembers = 288;
constexpr int kLnLastPartials = 3;  // slots of what a block posts
constexpr int kLnLastTotals = 5;    // and of what a team has together
constexpr int kLnLastHeader = 512;  // of it, at most, for the barriers

// A tensor as samples x pixels x groups x channels of a group, the channels of a pixel one after the other.
struct LayerNormChannelsLast {
  std::int64_t samples = 0;
  std::int64_t pixels = 0;
  int groups = 0;
  int of_group = 0;
  int channels = 0;
};

struct LayerNormLastCut {
  std::int32_t packs = 0;        // of 16 bytes a pixel
  std::int32_t rows = 0;         // pixels that a block's threads work on at once
  std::int32_t threads = 0;      // that compute
  std::int32_t entry_bytes = 0;  // of shared memory for what threads pass on
  std::int32_t group_bytes = 0;  // and for totals and statistics of groups
  std::int32_t stages = 0;
  std::int32_t chunk_pixels = 0;   // rows * kLnLastFlight
  std::int32_t teams = 0;          // each has one sample at a time
  std::int32_t members = 0;        // blocks of a team
  std::int64_t slice = 0;          // pixels of a member, but for the last one
  bool held = false;               // a slice stays in shared memory between its two passes
  bool ahead = false;              // and the next sample's slice beside it
  bool copies_statistics = false;  // backward: mean and inverse of groups are copied to shared memory
};

[[nodiscard]] LayerNormLastCut layer_norm_last_cut(const LayerNormChannelsLast& shape, int element_bytes, int tensors,
                                                   int multiprocessors);

// Workspace, in this order: what each block posts of its samples' sums, what all blocks of a team have together, and
// each block's part of dscale and dbias.
struct LayerNormLastLayout {
  std::size_t totals = 0;
  std::size_t parameters = 0;
  std::size_t bytes = 0;
};
[[nodiscard]] LayerNormLastLayout layer_norm_last_layout(const LayerNormLastCut& cut,
                                                         const LayerNormChannelsLast& shape, bool parameters);

// Sets of a channels-last tensor: the channels of a pixel one after the other, in whole packs of 16 bytes, and scale,
// bias and their gradients with an element for each channel, or absent.
[[nodiscard]] bool layer_norm_channels_last_fit(const LayerNormParams& params);
[[nodiscard]] std::size_t layer_norm_channels_last_bytes(const LayerNormParams& params);
// False where it does not take them, or `workspace_bytes` are too few.
[[nodiscard]] bool launch_layer_norm_channels_last(const LayerNormParams& params, std::size_t workspace_bytes,
                                                   CUstream_st* stream);

}  // namespace gpudnn::kernels
