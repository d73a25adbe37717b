// Elements of tensors whose rank, strides and type are told at run time, as double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "core/launch/launch.hpp"
#include "kernels/graph/node.hpp"
#include "kernels/tile/any_pack.cuh"

namespace gpudnn::kernels {

struct NodeIndex {
  std::int64_t at[kNodeRank];
};

__device__ __forceinline__ NodeIndex index_of(const NodeTensor& t, std::int64_t flat) {
  NodeIndex index{};
  for (int d = t.rank - 1; d >= 0; --d) {
    index.at[d] = flat % t.dims[d];
    flat /= t.dims[d];
  }
  return index;
}

// Block scales in tiles of 128 rows and 4 columns: each tile holds 32 groups of 16 bytes.
__device__ __forceinline__ std::int64_t tiled_offset(const NodeTensor& t, const NodeIndex& index) {
  const bool turned = t.strides[t.rank - 1] > t.strides[t.rank - 2];
  const int r = turned ? t.rank - 1 : t.rank - 2;
  const int c = turned ? t.rank - 2 : t.rank - 1;
  const std::int64_t columns = (t.dims[c] + 3) / 4 * 4;
  const std::int64_t rows = (t.dims[r] + 127) / 128 * 128;
  std::int64_t matrix = 0;
  for (int d = 0; d + 2 < t.rank; ++d) matrix = matrix * t.dims[d] + index.at[d];
  const std::int64_t row = index.at[r], column = index.at[c];
  const std::int64_t tile = row / 128 * (columns / 4) + column / 4;
  return matrix * rows * columns + tile * 512 + row % 32 * 16 + row / 32 % 4 * 4 + column % 4;
}

__device__ __forceinline__ std::int64_t offset_of(const NodeTensor& t, const NodeIndex& index) {
  if (t.tiled && t.rank >= 2) return tiled_offset(t, index);
  std::int64_t offset = 0;
  for (int d = 0; d < t.rank; ++d) offset += index.at[d] * t.strides[d];
  return offset;
}

// e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
__device__ __forceinline__ double value_of_e2m1(unsigned bits) {
  const unsigned exponent = bits >> 1 & 3u;
  const double magnitude =
      exponent == 0 ? 0.5 * (bits & 1u) : ldexp(1 + 0.5 * (bits & 1u), static_cast<int>(exponent) - 1);
  return (bits & 8u) != 0 ? -magnitude : magnitude;
}
// To nearest, ties to even, held at 6; a NaN becomes 6.
__device__ __forceinline__ unsigned e2m1_of_value(double value) {
  const unsigned sign = signbit(value) ? 8u : 0u;
  const double m = fabs(value);
  if (!(m < 5)) return sign | 7u;  // 5 lies between 4 and 6, whose codes are 6 and 7
  const double step = m < 2 ? 0.5 : 1;
  const double nearest = rint(m / step) * step;
  if (nearest < 2) return sign | static_cast<unsigned>(nearest * 2);
  return sign | (nearest == 2 ? 4u : nearest == 3 ? 5u : 6u);
}

// e8m0: powers of two, rounded up; 255 is NaN.
__device__ __forceinline__ double value_of_e8m0(unsigned bits) {
  return bits == 255 ? nan("") : ldexp(1.0, static_cast<int>(bits) - 127);
}
__device__ __forceinline__ unsigned e8m0_of_value(double value) {
  if (isnan(value)) return 255;
  if (value <= 0) return 0;
  int exponent = 0;
  const double part = frexp(value, &exponent);
  const int code = (part == 0.5 ? exponent - 1 : exponent) + 127;
  return static_cast<unsigned>(code < 0 ? 0 : code > 254 ? 254 : code);
}

__device__ __forceinline__ double read_node(const NodeTensor& t, std::int64_t offset) {
  const auto* const bytes = static_cast<const unsigned char*>(t.data);
  if (t.special == NodeType::e8m0) return value_of_e8m0(bytes[offset]);
  if (t.special != NodeType::any) {
    const unsigned bits = bytes[offset / 2] >> (offset % 2 * 4) & 15u;
    if (t.special == NodeType::e2m1) return value_of_e2m1(bits);
    return t.special == NodeType::uint4 ? static_cast<int>(bits) : static_cast<int>(bits ^ 8u) - 8;
  }
  return tile::read_any<double>(t.type, bytes + offset * tile::any_type_bytes(t.type));
}
// Not of e2m1, whose elements share bytes.
__device__ __forceinline__ void write_node(const NodeTensor& t, std::int64_t offset, double value) {
  auto* const bytes = static_cast<unsigned char*>(t.data);
  if (t.special == NodeType::e8m0)
    bytes[offset] = static_cast<unsigned char>(e8m0_of_value(value));
  else
    tile::write_any<double>(t.type, bytes + offset * tile::any_type_bytes(t.type), value);
}
__device__ __forceinline__ double read_node(const NodeTensor& t, const NodeIndex& index) {
  return read_node(t, offset_of(t, index));
}

__host__ __device__ inline std::int64_t count_of(const NodeTensor& t) {
  std::int64_t count = 1;
  for (int d = 0; d < t.rank; ++d) count *= t.dims[d];
  return count;
}

// A thread for each of `count` numbers, in strides of the whole grid.
constexpr int kNodeThreads = 128;
inline cuda::LaunchConfig node_grid(std::int64_t count) {
  const std::int64_t blocks = (count + kNodeThreads - 1) / kNodeThreads;
  return {.blocks = dim3(static_cast<unsigned>(blocks < 1       ? 1
                                               : blocks > 65536 ? 65536
                                                                : blocks)),
          .threads = dim3(kNodeThreads)};
}
__device__ __forceinline__ std::int64_t first_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t threads_of_grid() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

}  // namespace gpudnn::kernels
