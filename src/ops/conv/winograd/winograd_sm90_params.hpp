// From a problem to the parameters of the Winograd convolution on bfloat16 tensor cores, and the footprint of its
// configs. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tma_boxes.hpp"
#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"
#include "kernels/conv/winograd/winograd_sm90.hpp"
#include "ops/conv/fp32_split/row_batches.hpp"

namespace gpudnn::conv {

// The most bytes of transformed images of a filter gradient: its rows of configs come once for each.
constexpr double kWgradChunkBytes[] = {1e9, 256e6};

// All launches of a call.
struct WinogradSm90Launch : RowProductLaunch {
  int m = 4;  // outputs of a tile along each side
  bool data_exchanges = false;
  bool grad_exchanges = false;
  bool output_exchanges = false;

  kernels::winograd::FilterTermsParams filter;  // forward and data gradient
  kernels::winograd::DataParams data;           // the image that windows read: x, dy in the data gradient
  kernels::winograd::DataParams grad;           // dy in the filter gradient
  kernels::winograd::OutputParams output;
  kernels::winograd::FilterOutputParams filter_output;
};

// A reason against, or null.
[[nodiscard]] const char* winograd_sm90_unsupported_reason(const Problem& problem);

// `config.split_k`: chunks of tiles that take turns in the workspace; in the filter gradient splits of the product of
// each chunk.
[[nodiscard]] WinogradSm90Launch winograd_sm90_launch(const Problem& problem, const Config& config);

// Tiles of a chunk of the filter gradient, with m outputs a side and so many bytes of transforms at a time.
[[nodiscard]] std::int64_t winograd_sm90_wgrad_chunk(const Problem& problem, int m, double chunk_bytes);

void winograd_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
