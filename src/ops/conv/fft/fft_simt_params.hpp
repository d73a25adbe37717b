// From a problem to the parameters of the Fourier convolution, and the footprint of its configs. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fft/fft_simt.hpp"
#include "kernels/conv/winograd/batched_product_simt.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// All launches of a call. Offsets are floats from the workspace's first aligned address.
struct FourierLaunch {
  Direction direction = Direction::forward;
  int size = 32;  // of a tile
  int product_row = 0;
  bool swapped = false;  // the product's A are the images, its B the filters

  kernels::fft::ForwardParams filter;  // dy in the filter gradient
  kernels::fft::ForwardParams data;    // the image that windows read: x, dy in the data gradient
  kernels::winograd::BatchedProduct product;
  kernels::fft::InverseParams output;

  std::int64_t tiles = 0;        // of all images
  std::int64_t chunk_tiles = 0;  // forward and data gradient: tiles that the workspace holds at a time
  std::int64_t first_tap = 0;    // where the taps begin in a filter, in floats
  std::int64_t filter_at = 0, data_at = 0, product_at = 0;
  std::int64_t workspace_floats = 0;
};

// --- what is said of a problem's tensors whatever multiplies

// Outputs of a tile along one side.
[[nodiscard]] std::int64_t fourier_step(const Problem& problem, int size, int axis);
[[nodiscard]] std::int64_t fourier_tile_count(const Problem& problem, int size);
[[nodiscard]] kernels::fft::Image fourier_image(const TensorGeometry& image, int groups);
// Of an image with all of its tiles.
[[nodiscard]] kernels::fft::Tiles fourier_pixel_tiles(const Problem& problem, const TensorGeometry& image, int size);
// The tiles that windows read begin at the first one's origin and are whole.
[[nodiscard]] kernels::fft::Tiles fourier_window_tiles(const Problem& problem, const TensorGeometry& image, int size);
// A filter of `images` outer channels by the inner channels of all groups.
[[nodiscard]] kernels::fft::Tiles fourier_filter_tiles(const Problem& problem, std::int64_t images, std::int64_t inner);
[[nodiscard]] kernels::fft::Image fourier_filter_image(const Problem& problem, bool channels_are_filters,
                                                       std::int64_t* first_tap);

// A reason against, or null. fft: padded images of up to 256 x 256; fft_tiling: filters of up to 32 x 32.
[[nodiscard]] const char* fourier_unsupported_reason(const Problem& problem, Family family);

[[nodiscard]] FourierLaunch fourier_launch(const Problem& problem, const Config& config);
[[nodiscard]] std::size_t fourier_workspace(const FourierLaunch& launch);

void fft_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
void fft_tiling_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
