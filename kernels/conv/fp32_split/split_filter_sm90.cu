// Splits a filter of any strides into bfloat16 terms (split_filter_sm90.hpp).
//
// A thread takes 8 channels of a row and goes through the taps, which lie beside each other in NCHW filters: what it
// reads for the first tap it finds in the L1 for the others. Four threads fill a row of 64 bytes of each plane, and
// neighbours the next row.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/fp32_split/bf16_terms.cuh"
#include "kernels/conv/fp32_split/split_filter_sm90.hpp"

namespace gpudnn::kernels::fp32_split {
namespace {

constexpr unsigned kThreads = 128;
constexpr int kVectors = kChunkBytes / 16;  // of a row
constexpr int kWidth = 8;

// The planes of 8 positions; *all_finite becomes false where one is not.
__device__ __forceinline__ void split_octet(const float (&x)[kWidth], uint4 (&planes)[kPlanes], bool* all_finite) {
  std::uint32_t words[kPlanes][kWidth / 2];
#pragma unroll
  for (int i = 0; i < kWidth / 2; ++i) {
    const bool here[2] = {is_finite(x[2 * i]), is_finite(x[2 * i + 1])};
    const Terms terms = terms_of_pair(x[2 * i], x[2 * i + 1]);
    words[0][i] = terms.finite;
    words[1][i] = terms.middle;
    words[2][i] = terms.low;
    words[3][i] = (here[0] ? 0 : terms.top & 0xffffu) | (here[1] ? 0 : terms.top & 0xffff0000u);
    *all_finite = *all_finite && here[0] && here[1];
  }
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
    planes[plane] = make_uint4(words[plane][0], words[plane][1], words[plane][2], words[plane][3]);
  }
}

// True where all values are finite.
__device__ __forceinline__ bool split_taps(const SplitFilterParams& p, std::uint32_t chunk, std::uint32_t row, int v) {
  std::uint32_t row_of_group = 0;
  const std::uint32_t group = p.rows_of_group.divmod(row, &row_of_group);
  const float* const first = p.filter + group * p.group_step + row_of_group * p.row_step;
  const std::uint32_t first_channel = chunk * kChunkChannels;
  const std::size_t plane_vectors = static_cast<std::size_t>(p.rows.divisor) * kVectors;
  auto* out = static_cast<uint4*>(p.terms) + chunk * kPlanes * plane_vectors +
              static_cast<std::size_t>(row) * kVectors + static_cast<std::size_t>(v);
  bool all_finite = true;
  for (std::uint32_t d = 0; d < p.taps[2]; ++d) {
    for (std::uint32_t h = 0; h < p.taps[1]; ++h) {
      for (std::uint32_t w = 0; w < p.taps[0]; ++w) {
        const float* const at = first + d * p.tap_step[2] + h * p.tap_step[1] + w * p.tap_step[0];
        float x[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const std::uint32_t channel = first_channel + static_cast<std::uint32_t>(channel_at(v, i));
          x[i] = channel < p.channels ? __ldg(at + channel * p.channel_step) : 0.0f;
        }
        uint4 planes[kPlanes];
        split_octet(x, planes, &all_finite);
#pragma unroll
        for (int plane = 0; plane < kPlanes; ++plane) {
          out[static_cast<std::size_t>(plane) * plane_vectors] = planes[plane];
        }
        out += p.chunks * kPlanes * plane_vectors;
      }
    }
  }
  return all_finite;
}

__global__ void __launch_bounds__(kThreads) split_filter(const __grid_constant__ SplitFilterParams p) {
  const std::uint32_t items = p.chunks * p.rows.divisor * kVectors;
  bool all_finite = true;
  for (std::uint32_t item = blockIdx.x * kThreads + threadIdx.x; item < items; item += gridDim.x * kThreads) {
    std::uint32_t row = 0;
    const std::uint32_t chunk = p.rows.divmod(item / kVectors, &row);
    all_finite = split_taps(p, chunk, row, static_cast<int>(item % kVectors)) && all_finite;
  }
  const int any = __syncthreads_or(all_finite ? 0 : 1);
  // Flags of blocks that the launch does not have are cleared too.
  if (threadIdx.x == 0) p.flags[blockIdx.x] = static_cast<std::uint32_t>(any);
  if (blockIdx.x == 0) {
    for (std::uint32_t i = gridDim.x + threadIdx.x; i < kMaxSplitBlocks; i += kThreads) p.flags[i] = 0;
  }
}

}  // namespace

void launch_split_filter(const SplitFilterParams& params, CUstream_st* stream) {
  const std::uint32_t items = params.chunks * params.rows.divisor * kVectors;
  const std::uint32_t wanted = (items + kThreads - 1) / kThreads;
  const std::uint32_t blocks = wanted < kMaxSplitBlocks ? wanted : kMaxSplitBlocks;
  cuda::launch_kernel(&split_filter, {blocks, kThreads}, stream, params);
}

}  // namespace gpudnn::kernels::fp32_split
