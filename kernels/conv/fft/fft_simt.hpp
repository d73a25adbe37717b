// Parameters of the Fourier convolution (stride 1, dilation 1): plain data.
//
// Each image is cut into T x T tiles that overlap by the filter's extent less one. With F the two-dimensional discrete
// Fourier transform of a real tile, of which T x (T/2 + 1) frequencies say everything,
//
//   result tile = F^-1 [ sum over the channels of F(data) * conj(F(filter)) ],
//
// whose first (T - R + 1) x (T - S + 1) elements hold no wrapped-around product. The data gradient is the forward of dy
// with the filter turned round; in the filter gradient a tile of dy of that extent stands for the filter, and dw's
// R x S for the result. With data a + ib and filter c + id, a product is (ac + bd) + i(bc - ad), which for all channels
// together is one real product of matrices a frequency (batched_product_simt.hpp):
//
//   rows of the data    a for each channel, then b for each        (k = 2 C)
//   rows of the filter  c ... | -d ..., then d ... | c ...         (k = 2 C, of 2 K columns)
//   the result          real parts of K channels, then imaginary   (2 K)
//
// Sizes and strides are in floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/conv/epilogue_params.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::fft {

using tile::FastDivmod;

constexpr int kTileSizes[] = {16, 32, 64};
constexpr int frequencies_of(int size) { return size * (size / 2 + 1); }
// Tiles of a block: as many neighbours share a sector of the transform.
constexpr int items_of(int size) { return size == 64 ? 2 : 8; }

// A tensor of two-dimensional images. The filter is one, too: of its outer channels as images.
struct Image {
  std::int64_t n = 0, group = 0, channel = 0, h = 0, w = 0;  // strides; h and w negative where taps run backwards
  std::int32_t height = 0, width = 0;
};

// A transformed tensor. `imaginary`: from a real part to its imaginary one.
struct Spectrum {
  std::int64_t frequency = 0, group = 0, channel = 0, tile = 0, imaginary = 0;  // strides
  std::int64_t expanded = 0;  // of a filter: from a column of real results to that of imaginary ones; else 0
};

struct Tiles {
  FastDivmod per_row, per_column;  // of an image
  std::int64_t first = 0;          // a launch's first tile of all images' ...
  std::int32_t count = 0;          // ... and how many
  std::int32_t channels = 0;       // of all groups
  FastDivmod group_channels;
  std::int32_t step_h = 0, step_w = 0;      // from tile to tile
  std::int32_t origin_h = 0, origin_w = 0;  // of the first
  std::int32_t window_h = 0, window_w = 0;  // of a tile, what is read or written
  bool along_channels = false;              // neighbours in the transform are channels, else tiles
};

struct ForwardParams {
  const float* in = nullptr;
  float* out = nullptr;
  Image image;
  Tiles tiles;
  Spectrum spectrum;
};

struct InverseParams : conv::ScaledEpilogueParams {
  const float* in = nullptr;

  Image image;
  Image addend_image;
  Tiles tiles;
  Spectrum spectrum;
  std::int32_t splits = 1;  // of the product, summed in their order
  std::int64_t split = 0;
};

void launch_forward(int size, const ForwardParams& params, CUstream_st* stream);
void launch_inverse(int size, const InverseParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::fft
