// From a convolution problem to the parameters of the depthwise kernels, and their footprint. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/depthwise_simt.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// A reason against, or null.
[[nodiscard]] const char* depthwise_unsupported_reason(const Problem& problem);

// An instance and its parameters without pointers.
struct DepthwiseLaunch {
  kernels::depthwise::Params params;
  int row = -1;       // of kTiles; -1: none
  int resident = 1;   // thread blocks of a multiprocessor
  int alignment = 1;  // of the pointers, bytes
};

// Values of Config::tile: a channel a thread; or several, or packs of a line, where the layout allows it. Those beyond
// are the latter in other blocks.
constexpr int kDepthwiseSingle = 1;
constexpr int kDepthwiseVectors = 2;
// `splits`: of the filter gradient.
[[nodiscard]] DepthwiseLaunch depthwise_launch(const Problem& problem, int config_tile, int splits,
                                               int multiprocessors);

// Bytes of partial sums.
[[nodiscard]] std::size_t depthwise_workspace(const Problem& problem, int splits);

void depthwise_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
