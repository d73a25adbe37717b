// From a problem to the parameters of the Fourier convolution on bfloat16 tensor cores, and the footprint of its
// configs. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tma_boxes.hpp"
#include "kernels/conv/fft/fft_sm90.hpp"
#include "ops/conv/engine.hpp"
#include "ops/conv/fp32_split/row_batches.hpp"

namespace gpudnn::conv {

// The most bytes of transforms of a filter gradient at a time.
constexpr double kFourierWgradChunkBytes = 1e9;

// All launches of a call.
struct FourierSm90Launch : RowProductLaunch {
  int size = 32;  // of a tile

  kernels::fft::FilterTermsParams filter;  // forward and data gradient
  kernels::fft::DataRowsParams data;       // the image that windows read: x, dy in the data gradient
  kernels::fft::DataRowsParams grad;       // dy in the filter gradient
  kernels::fft::ResultRowsParams result;
};

// A reason against, or null.
[[nodiscard]] const char* fourier_sm90_unsupported_reason(const Problem& problem, Family family);

// `config.tile`: the size of tiles; in the filter gradient, times the product's rows, and the row. `config.split_k`:
// chunks of tiles that take turns in the workspace; nothing in the filter gradient.
[[nodiscard]] FourierSm90Launch fourier_sm90_launch(const Problem& problem, const Config& config);

void fft_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
void fft_tiling_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
