// Splits the operands of a product of floats into bfloat16 terms (split_operands_sm90.hpp).
//
// A block takes 32 rows x 64 of k through shared memory: it loads along the direction in which neighbours lie closer,
// and a thread stores 8 elements of k, 16 bytes, to each segment.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "core/launch/launch.hpp"
#include "kernels/conv/fp32_split/bf16_terms.cuh"
#include "kernels/matmul/split_operands_sm90.hpp"

namespace gpudnn::kernels::matmul {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kWidth = 8;
constexpr int kItems = kSplitRows * kSplitDepth / static_cast<int>(kThreads);
static_assert(kThreads == kSplitRows * kSplitDepth / kWidth, "8 elements a thread");

// The tile's first row and element of k, and where its batch begins.
struct Place {
  std::uint32_t row, depth, batch;
  std::int64_t from;
};

__device__ __forceinline__ Place place_of(const SplitOperand& x, std::uint32_t block) {
  Place place;
  std::uint32_t depth_tile = 0;
  std::uint32_t row_tile = 0;
  place.batch = x.row_tiles.divmod(x.depth_tiles.divmod(block, &depth_tile), &row_tile);
  std::uint32_t inner = 0;
  const std::uint32_t outer = x.inner_batches.divmod(place.batch, &inner);
  place.from = outer * x.batch_stride[0] + inner * x.batch_stride[1];
  place.row = row_tile * kSplitRows;
  place.depth = depth_tile * kSplitDepth;
  return place;
}

__device__ __forceinline__ void load_tile(const SplitOperand& x, const Place& place,
                                          float (&tile)[kSplitRows][kSplitDepth + 1]) {
  const bool along_depth = x.depth_stride <= x.row_stride || x.rows == 1;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const std::uint32_t item = threadIdx.x + static_cast<std::uint32_t>(i) * kThreads;
    const std::uint32_t row = along_depth ? item / kSplitDepth : item % kSplitRows;
    const std::uint32_t depth = along_depth ? item % kSplitDepth : item / kSplitRows;
    const bool exists = place.row + row < x.rows && place.depth + depth < x.depth;
    const std::int64_t at = place.from + (place.row + row) * x.row_stride + (place.depth + depth) * x.depth_stride;
    tile[row][depth] = exists ? __ldg(x.from + at) : 0.0f;
  }
}

// kIsB: the order of B's segments.
template <bool kIsB>
__device__ __forceinline__ void store_terms(const SplitOperand& x, const Place& place,
                                            const float (&tile)[kSplitRows][kSplitDepth + 1]) {
  const std::uint32_t row = threadIdx.x / (kSplitDepth / kWidth);
  const std::uint32_t depth = threadIdx.x % (kSplitDepth / kWidth) * kWidth;
  if (place.row + row >= x.rows || place.depth + depth >= x.padded_depth) return;
  std::uint32_t top[kWidth / 2], finite[kWidth / 2], middle[kWidth / 2], low[kWidth / 2];
#pragma unroll
  for (int i = 0; i < kWidth / 2; ++i) {
    const fp32_split::Terms terms = fp32_split::terms_of_pair(tile[row][depth + 2 * i], tile[row][depth + 2 * i + 1]);
    top[i] = terms.top;
    finite[i] = terms.finite;
    middle[i] = terms.middle;
    low[i] = terms.low;
  }
  const auto vector = [](const std::uint32_t(&w)[kWidth / 2]) { return make_uint4(w[0], w[1], w[2], w[3]); };
  const std::size_t segment = x.padded_depth / kWidth;  // in vectors
  uint4* const to = static_cast<uint4*>(x.to) +
                    (static_cast<std::size_t>(place.batch) * x.rows + place.row + row) * kSegments * segment +
                    (place.depth + depth) / kWidth;
  to[0 * segment] = kIsB ? vector(low) : vector(finite);
  to[1 * segment] = vector(middle);
  to[2 * segment] = kIsB ? vector(finite) : vector(low);
  to[3 * segment] = kIsB ? vector(middle) : vector(finite);
  to[4 * segment] = kIsB ? vector(finite) : vector(middle);
  to[5 * segment] = vector(top);
}

__global__ void __launch_bounds__(kThreads) split_operands(const __grid_constant__ SplitOperands p) {
  __shared__ float tile[kSplitRows][kSplitDepth + 1];
  const bool is_b = blockIdx.x >= p.of[0].blocks;
  const SplitOperand& x = is_b ? p.of[1] : p.of[0];
  const Place place = place_of(x, is_b ? blockIdx.x - p.of[0].blocks : blockIdx.x);
  load_tile(x, place, tile);
  __syncthreads();
  if (is_b) {
    store_terms<true>(x, place, tile);
  } else {
    store_terms<false>(x, place, tile);
  }
}

}  // namespace

void launch_split_operands(const SplitOperands& operands, CUstream_st* stream) {
  const std::uint32_t blocks = operands.of[0].blocks + operands.of[1].blocks;
  cuda::launch_kernel(&split_operands, {blocks, kThreads}, stream, operands);
}

}  // namespace gpudnn::kernels::matmul
