// From a problem to the parameters of the Fourier convolution on bfloat16 tensor cores, and the footprint of its
// configs. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tma_boxes.hpp"
#include "kernels/conv/fft/fft_sm90.hpp"
#include "ops/conv/engine.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"

namespace gpudnn::conv {

// The most bytes of transforms of a filter gradient at a time.
constexpr double kFourierWgradChunkBytes = 1e9;

// All launches of a call. Offsets are bytes from the workspace's first aligned address.
struct FourierSm90Launch {
  Direction direction = Direction::forward;
  int size = 32;    // of a tile
  int product = 0;  // filter gradient: a row of fp32_split::kWgradShapes

  kernels::fft::FilterTermsParams filter;  // forward and data gradient
  kernels::fft::DataRowsParams data;       // the image that windows read: x, dy in the data gradient
  kernels::fft::DataRowsParams grad;       // dy in the filter gradient
  kernels::fft::ResultRowsParams result;

  Sm90Plan plan;   // of the product of all batches
  TmaBoxes terms;  // forward and data gradient: the filter's
  std::uint32_t m_tiles_of_batch = 0;
  std::uint32_t rows_of_batch = 0;     // of terms
  std::uint32_t k_tiles_of_batch = 0;  // filter gradient

  std::int64_t batches = 0;
  std::int64_t tiles = 0;         // of all images
  std::int64_t chunk_tiles = 0;   // that the workspace holds at a time
  std::int64_t padded_tiles = 0;  // with those that fill up a batch
  std::int64_t first_tap = 0;     // where the taps begin in a filter, in floats
  std::size_t filter_at = 0, data_at = 0, product_at = 0;
  std::size_t workspace = 0;
};

// A reason against, or null.
[[nodiscard]] const char* fourier_sm90_unsupported_reason(const Problem& problem, Family family);

// `config.tile`: the size of tiles; in the filter gradient, times the product's rows, and the row. `config.split_k`:
// chunks of tiles that take turns in the workspace; nothing in the filter gradient.
[[nodiscard]] FourierSm90Launch fourier_sm90_launch(const Problem& problem, const Config& config);

void fft_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
void fft_tiling_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
