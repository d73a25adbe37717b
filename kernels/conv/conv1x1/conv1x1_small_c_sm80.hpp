// The parameters of the pointwise convolution of few channels: plain data, shared by the launcher and the kernel. See
// conv1x1_small_c_sm80.cuh.
//
// Every problem is y[pixel, m] = sum over k of x[pixel, k] * f[m, k]: forward with m the filter and k the channel, the
// data gradient with m the channel and k the filter. "Input" is x or dy, "output" y or dx.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/conv/epilogue_params.hpp"
#include "kernels/tile/element_type.hpp"

struct CUstream_st;

namespace gpudnn::kernels::conv1x1_small_c {

using tile::ElementType;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int blocks_per_multiprocessor(int steps) { return steps == 1 ? 4 : 3; }
constexpr std::uint32_t kTilePixels = 16;     // of a warp
constexpr std::uint32_t kGroupChannels = 32;  // of the output, whose sums a warp has at once
constexpr std::uint32_t kStepChannels = 32;   // of the input: 16 bytes for each of four lanes
constexpr std::uint32_t kMaxSteps = 2;

// Of the filter in shared memory: an entry of 16 bytes for each lane, four tiles of 8 columns a group.
constexpr std::uint32_t kEntriesPerStep = 4 * 32;
constexpr std::uint32_t kEntriesTogether = 8;  // that a thread has under way

struct Params : conv::EpilogueParams {
  std::uint32_t pixels = 0;
  std::uint32_t tiles = 0;  // of pixels
  std::uint32_t k = 0;      // multiples of 8
  std::uint32_t m = 0;
  std::uint32_t steps = 1;   // along k
  std::uint32_t groups = 0;  // of output channels
  std::int64_t in_step = 0;  // bytes from pixel to pixel
  std::int64_t out_step = 0;
  std::int64_t addend_step = 0;
  std::int64_t filter_m_step = 0;  // elements
  std::int64_t filter_k_step = 0;
  bool filter_vectors = false;  // eight k are 16 bytes in memory
  std::uint32_t shared_bytes = 0;
  // Filled in for each launch.
  const void* input = nullptr;
  const void* filter = nullptr;
};

// What entry `lane` of a step and tile holds of the filter: eight k from the first one on, of channel m. Tiles of a
// group have every fourth pair of channels, so that the sums of a lane in all four are 8 channels in a row.
struct Entry {
  std::uint32_t m, first_k;
};
inline constexpr Entry entry_of(std::uint32_t group, std::uint32_t tile, std::uint32_t step, std::uint32_t lane) {
  const std::uint32_t column = lane / 4;
  return {group * kGroupChannels + column / 2 * 8 + tile * 2 + column % 2, step * kStepChannels + lane % 4 * 8};
}

void launch(ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream);

}  // namespace gpudnn::kernels::conv1x1_small_c
