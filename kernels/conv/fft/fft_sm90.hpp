// Parameters of the Fourier transforms around complex products on bfloat16 tensor cores: plain data.
//
// The mathematics is that of fft_simt.hpp. A real T x T tile has T^2 / 2 + 2 frequencies that say everything: of the
// T/2 + 1 columns of frequencies of its rows the first and the last are those of real numbers, of which half is enough.
// The products of a frequency, and of a group of channels, are a batch:
//
//                    A (rows of floats)          B                                C (rows of floats)
//   forward          x [batch][tile][c]          filter's terms, conjugate        y [batch][tile][k]
//   data gradient    dy [batch][tile][k]         rotated filter's, conjugate      dx [batch][tile][c]
//   filter gradient  dy [batch][tile][k]         x [batch][tile][c]               dw [batch][k][c]
//
// Batch number frequency * groups + group. Rows are complex numbers; channels up to a multiple of 16 are zero. The
// products of forward and data gradient are those of complex_product_sm90.hpp. The filter gradient's are real ones of
// the rows' floats, whose epilogue makes a complex number of each four (WgradParams::is_complex). A batch's tiles fill
// whole tiles of the product; the filter gradient has zeros behind the last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fft/fft_simt.hpp"
#include "kernels/conv/fp32_split/complex_product_sm90.hpp"

namespace gpudnn::kernels::fft {

constexpr int kRowTileSizes[] = {16, 32};
constexpr int row_frequencies_of(int size) { return size * size / 2 + 2; }
constexpr int kChannelsOfBlock = fp32_split::kComplexBlock;  // of a thread block of the transforms, all of one tile

// Strides, in floats, of a tensor of [frequency][group][tile][channels]; dw of the filter gradient has k for the tile.
struct SpectrumRows {
  std::int64_t frequency = 0, group = 0, tile = 0;
};

// The blocks of channels of a group, and the groups: of a launch's thread blocks the fastest.
struct RowBlocks {
  FastDivmod channels, groups;
};

struct DataRowsParams {
  ForwardParams data;  // without its spectrum
  RowBlocks blocks;
  SpectrumRows rows;
  std::int32_t padded = 0;  // tiles that are written; behind the last one zeros
  // It begins when all blocks of the launch before it have, for it needs nothing of that one, but what that one waits
  // for; it ends behind it, so that whoever waits for this launch finds both results.
  bool runs_beside = false;
};

// `filter.tiles` are the filters of a group, `filter.out` is not used.
struct FilterTermsParams {
  ForwardParams filter;
  RowBlocks blocks;
  void* terms = nullptr;
  std::uint32_t rows_of_batch = 0;  // of terms: the filters of a group, up to a multiple of 8
};

struct ResultRowsParams {
  InverseParams result;  // without its spectrum
  RowBlocks blocks;
  SpectrumRows rows;
};

void launch_data_rows(int size, const DataRowsParams& params, CUstream_st* stream);
void launch_filter_terms(int size, const FilterTermsParams& params, CUstream_st* stream);
void launch_result_rows(int size, const ResultRowsParams& params, CUstream_st* stream);
}  // namespace gpudnn::kernels::fft
