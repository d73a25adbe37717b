// What the launch functions of the spatial-transformer kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tile/element_type.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// theta (N, 2, 3) <-> grid (N, H, W, 2), both packed. Forward reads theta and writes grid, backward the other way.
struct AffineGridParams {
  tile::ElementType type = tile::ElementType::f32;
  std::int64_t images = 0;
  std::int64_t height = 0;  // of the output; height * width is below 2^31
  std::int64_t width = 0;
  const void* in = nullptr;
  void* out = nullptr;
  int multiprocessors = 1;
  bool has_clusters = false;
};
void launch_affine_grid_forward(const AffineGridParams& params, CUstream_st* stream);
void launch_affine_grid_backward(const AffineGridParams& params, CUstream_st* stream);

// An image of the sampler; strides in elements, in the order n, c, h, w.
struct SamplerImage {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t strides[4] = {};
};

// `x` is the sampled image, `y` what is sampled from it (forward's output, backward's dy); `dx` has x's dims. The grid
// and its gradient are packed (N, H, W, 2). Forward writes y, grid_gradient writes `out` = dgrid, image_gradient `out`
// = dx.
struct SamplerParams {
  tile::ElementType type = tile::ElementType::f32;
  std::int64_t images = 0;
  std::int64_t channels = 0;
  SamplerImage image;   // x, or dx
  SamplerImage sample;  // y, or dy; height * width is below 2^31
  double alpha = 1;
  double beta = 0;
  const void* x = nullptr;
  const void* grid = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
  int multiprocessors = 1;
  std::size_t shared_memory_per_block = 0;
  void* scratch = nullptr;  // image_gradient: memory that may be written and that nothing else of the call needs now
  std::size_t scratch_bytes = 0;
  bool follows_image_gradient = false;  // grid_gradient: the launch before is that of the same call
};
void launch_sampler_forward(const SamplerParams& params, CUstream_st* stream);
void launch_sampler_grid_gradient(const SamplerParams& params, CUstream_st* stream);
void launch_sampler_image_gradient(const SamplerParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
