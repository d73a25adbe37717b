// How samples of a channels-last tensor are cut for the kernels of channels_last.cuh. Plain data, from the shape and
// the device alone, as the workspace is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace gpudnn::kernels {

struct LayerNormParams;

constexpr int kLnLastThreads = 256;  // of a block, unless a pixel has more packs
constexpr int kLnLastPacks = 512;    // of 16 bytes a pixel, at most
constexpr int kLnLastFlight = 4;     // pixels of a thread whose packs are under way at once: forward
constexpr int kLnLastBackwardFlight = 2;
constexpr int kLnLastTogether = 4;        // blocks of a multiprocessor
constexpr int kLnLastBundle = 32;         // groups that a block of the second kernel has, at most
constexpr int kLnLastJoinThreads = 1024;  // of the second kernel

// A tensor as samples x pixels x groups x channels of a group, the channels of a pixel one after the other.
struct LayerNormChannelsLast {
  std::int64_t samples = 0;
  std::int64_t pixels = 0;
  int groups = 0;
  int of_group = 0;
  int channels = 0;
};

struct LayerNormLastCut {
  std::int32_t packs = 0;  // of 16 bytes a pixel; 0: the kernels do not take it
  std::int32_t rows = 0;   // pixels that a block's threads work on at once
  std::int32_t threads = 0;
  std::int32_t parts = 0;   // of a sample, each for a block
  std::int64_t slice = 0;   // pixels of a part, but for the last one
  std::int32_t bundle = 0;  // backward: groups that a block of the second kernel has
  std::int32_t lanes = 0;   // and channels that it takes at once
};

[[nodiscard]] LayerNormLastCut layer_norm_last_cut(const LayerNormChannelsLast& shape, int element_bytes,
                                                   int multiprocessors);

// Workspace, in this order: what parts of samples have (forward a pair for each group, backward for each channel),
// what samples have (a pair for each group), and backward their sums of channels.
struct LayerNormLastLayout {
  std::size_t totals = 0;
  std::size_t channels = 0;
  std::size_t bytes = 0;
};
[[nodiscard]] LayerNormLastLayout layer_norm_last_layout(const LayerNormLastCut& cut,
                                                         const LayerNormChannelsLast& shape, bool backward);

// Sets of a channels-last tensor: the channels of a pixel one after the other, in whole packs of 16 bytes, and scale,
// bias and their gradients with an element for each channel, or absent.
[[nodiscard]] bool layer_norm_channels_last_fit(const LayerNormParams& params);
[[nodiscard]] std::size_t layer_norm_channels_last_bytes(const LayerNormParams& params);
// False where it does not take them, or `workspace_bytes` are too few.
[[nodiscard]] bool launch_layer_norm_channels_last(const LayerNormParams& params, std::size_t workspace_bytes,
                                                   CUstream_st* stream);

}  // namespace gpudnn::kernels
