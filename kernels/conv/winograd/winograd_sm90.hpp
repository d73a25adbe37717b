// Parameters of the transforms around Winograd's products on bfloat16 tensor cores: plain data.
//
// The mathematics and the tensors' parameters are those of winograd_simt.hpp. The products of a point, and of a group
// of channels, are a batch of fp32_split_sm90 (fp32_split_sm90.hpp), which cuts floats into terms of bfloat16:
//
//                    A (rows of floats)          B                            C (rows of floats)
//   forward          x [batch][tile][c]          filter's terms               y [batch][tile][k]
//   data gradient    dy [batch][tile][k]         rotated filter's terms       dx [batch][tile][c]
//   filter gradient  dy [batch][tile][k]         x [batch][tile][c]           dw [batch][k][c]
//
// Batch number point * groups + group. Rows begin at multiples of 16 bytes. A batch's tiles fill whole tiles of the
// product (in the filter gradient whole k tiles): behind the last one stand zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/winograd/winograd_simt.hpp"

namespace gpudnn::kernels::winograd {

// Of a thread block of the transforms.
constexpr int kTilesOfBlock = 8;
constexpr int kChannelsOfBlock = 32;

// From a filter to the terms of its transform, in the layout of split_filter_sm90.hpp: rows are the batches' channels
// of the result, one batch's behind those of the other; the plane of values that are not finite is left out.
struct FilterTermsParams {
  const float* in = nullptr;
  void* terms = nullptr;
  std::int64_t group = 0, outer = 0, inner = 0, r = 0, s = 0;  // strides; r and s negative where taps are mirrored
  FastDivmod outer_count;                                      // of a group: channels of the result
  FastDivmod chunks;                                           // of 32 channels that are summed
  std::uint32_t inner_count = 0;
  std::uint32_t groups = 1;
};

// `exchanges`: the image is contiguous along its rows, the transform along channels.
void launch_data_rows(int m, bool as_filter, bool exchanges, const DataParams& params, CUstream_st* stream);
void launch_filter_terms(int m, const FilterTermsParams& params, CUstream_st* stream);
void launch_output_rows(int m, bool exchanges, const OutputParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::winograd
