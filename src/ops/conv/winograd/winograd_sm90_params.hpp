// From a problem to the parameters of the Winograd convolution on bfloat16 tensor cores, and the footprint of its
// configs. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tma_boxes.hpp"
#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"
#include "kernels/conv/winograd/winograd_sm90.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"

namespace gpudnn::conv {

// The most bytes of transformed images of a filter gradient: its rows of configs come once for each.
constexpr double kWgradChunkBytes[] = {1e9, 256e6};

// All launches of a call. Offsets are bytes from the workspace's first aligned address.
struct WinogradSm90Launch {
  Direction direction = Direction::forward;
  int m = 4;     // outputs of a tile along each side
  int tile = 0;  // of the product: a row of fp32_split::kShapes or kWgradShapes
  bool data_exchanges = false;
  bool grad_exchanges = false;
  bool output_exchanges = false;

  kernels::winograd::FilterTermsParams filter;  // forward and data gradient
  kernels::winograd::DataParams data;           // the image that windows read: x, dy in the data gradient
  kernels::winograd::DataParams grad;           // dy in the filter gradient
  kernels::winograd::OutputParams output;
  kernels::winograd::FilterOutputParams filter_output;

  Sm90Plan product;  // of all batches
  TmaBoxes terms;    // forward and data gradient: the filter's
  std::uint32_t m_tiles_of_batch = 0;
  std::uint32_t rows_of_batch = 0;     // of terms
  std::uint32_t k_tiles_of_batch = 0;  // filter gradient

  std::int64_t batches = 0;
  std::int64_t tiles = 0;         // of all images
  std::int64_t chunk_tiles = 0;   // that the workspace holds at a time
  std::int64_t padded_tiles = 0;  // with those that fill up a batch
  std::int64_t first_tap = 0;     // where the taps begin in a filter, in floats
  std::size_t filter_at = 0, data_at = 0, product_at = 0, partials_at = 0;
  std::size_t workspace = 0;
};

// A reason against, or null.
[[nodiscard]] const char* winograd_sm90_unsupported_reason(const Problem& problem);

// `config.split_k`: chunks of tiles that take turns in the workspace; in the filter gradient splits of the product of
// each chunk.
[[nodiscard]] WinogradSm90Launch winograd_sm90_launch(const Problem& problem, const Config& config);

void winograd_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
