// The parameters of the forward convolution whose warps share a tile's reduction: plain data, shared by the launcher
// and the kernel. See sliced_k_sm80.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::sliced_k {

using tile::FastDivmod;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr std::uint32_t kTilePixels = 16;   // of a warp
constexpr std::uint32_t kTileFilters = 32;  // of a block
constexpr std::uint32_t kPlanePixels = 32;  // of a block of sliced_k_planes_sm80
constexpr std::uint32_t kChunk = 32;        // terms: 8 for each of four lanes
// Of a block of sliced_k_rows_sm80.
constexpr std::uint32_t warps_of_rows(std::uint32_t slice_shift) { return slice_shift < 2 ? 4 : 1u << slice_shift; }
// Chunks that a warp has under way.
constexpr std::uint32_t at_once(bool vectors) { return vectors ? 4 : 2; }

// Warps that share a tile's reduction; the others have other pixels.
constexpr int kSlices[] = {8, 4, 2, 1};
constexpr int kSliceCount = sizeof(kSlices) / sizeof(kSlices[0]);

// Where elements lie, in elements. Axis 0 is w, 1 is h.
struct Image {
  std::int32_t image = 0;
  std::int32_t channel = 0;
  std::int32_t axis[2] = {};
};

// What every block of sliced_k_rows_sm80 reads stands first, in one line of the constants.
struct Params {
  const void* x = nullptr;
  const void* w = nullptr;
  std::uint32_t pixels = 0;  // of y
  std::uint32_t filters = 0;
  std::uint32_t terms = 0;  // of a sum
  std::uint32_t chunks = 0;
  std::uint32_t slice_shift = 0;  // 2 to that power are the slices
  std::uint32_t x_row = 0;        // with `rows`: bytes from a pixel to the next
  std::uint32_t w_row = 0;        // bytes from a filter to the next
  // One tap, and pixels one row after the other in x, y and the addend, in whole vectors of 8 as w is, or (row_halves)
  // of 4.
  bool rows = false;
  bool row_halves = false;
  bool is_bf16 = false;
  // One tap, a filter's channels vectors, and pixels neighbours in whole vectors in x, y and the addend.
  bool planes = false;
  std::uint32_t plane_pixels = 0;
  FastDivmod plane_tiles;
  FastDivmod extent[2];  // of y
  FastDivmod taps[2];    // w, h
  FastDivmod vectors_of_tap;
  std::int32_t x_extent[2] = {1, 1};
  std::int32_t pad[2] = {};
  std::int32_t stride[2] = {1, 1};
  std::int32_t dilation[2] = {1, 1};
  Image x_at, w_at, y_at, addend_at;  // of w: the image is a filter
  bool vectors = false;    // channels are neighbours in whole vectors of 8, in x and w; else elements come one by one,
                           // in the order c, r, s
  bool w_vectors = false;  // without `vectors`: a filter's elements are neighbours in that order, in vectors of 8
  bool y_vectors = false;
  bool has_bias = false;
  bool float_vectors = false;  // the bias is of floats, else of the data's type
  std::int64_t bias_step = 0;  // bytes
  // Filled in for each launch.
  bool is_plain = false;
  float alpha = 1;
  float addend_scale = 0;                  // 0: the addend is not read
  gemm::ActivationArgs<float> activation;  // identity or ReLU
  const void* addend = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
};

void launch(const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::sliced_k
