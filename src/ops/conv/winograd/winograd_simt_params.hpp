// From a problem to the parameters of the Winograd convolution, and the footprint of its configs. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/winograd/batched_product_simt.hpp"
#include "kernels/conv/winograd/winograd_simt.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// All launches of a call. Offsets are floats from the workspace's first aligned address.
struct WinogradLaunch {
  Direction direction = Direction::forward;
  int m = 4;             // outputs of a tile along each side
  int product_row = 0;   // of kernels::winograd::kProductTiles
  bool swapped = false;  // the product's A are the images, its B the filters

  kernels::winograd::FilterParams filter;  // forward and data gradient
  kernels::winograd::DataParams data;      // the image that windows read: x, dy in the data gradient
  kernels::winograd::DataParams grad;      // dy in the filter gradient
  kernels::winograd::BatchedProduct product;
  kernels::winograd::OutputParams output;
  kernels::winograd::FilterOutputParams filter_output;

  std::int64_t tiles = 0;        // of all images
  std::int32_t split_k = 1;      // of the config
  std::int64_t chunk_tiles = 0;  // forward and data gradient: tiles that the workspace holds at a time
  std::int64_t first_tap = 0;    // where the taps begin in a filter, in floats
  std::int64_t filter_at = 0, data_at = 0, product_at = 0;
  std::int64_t workspace_floats = 0;
};

// Of an image, and of the transform of one with tiles of m outputs a side, but for the origin and the strides of the
// result.
[[nodiscard]] kernels::winograd::Image winograd_image(const TensorGeometry& image);
[[nodiscard]] kernels::winograd::DataParams winograd_data(const Problem& problem, const TensorGeometry& image, int m);
// Whether the rows of its tiles are whole vectors.
[[nodiscard]] bool winograd_stores_vectors(const TensorGeometry& image, int m);
[[nodiscard]] std::int64_t winograd_tiles(const Problem& problem, int m);  // of all images

// A reason against, or null.
[[nodiscard]] const char* winograd_unsupported_reason(const Problem& problem);

// `config.split_k`: chunks of tiles that take turns in the workspace; in the filter gradient splits of the product.
[[nodiscard]] WinogradLaunch winograd_launch(const Problem& problem, const Config& config);
// Other splits for a launch of the filter gradient.
void set_winograd_splits(std::int64_t splits, WinogradLaunch* launch);
[[nodiscard]] std::size_t winograd_workspace(const WinogradLaunch& launch);

void winograd_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
