// Loops over the elements of up to six tensors at once: the extents, and each tensor's strides, without pointers.
// HostNest is what a launcher makes (any size); LoopNest is what a kernel indexes with (below 2^31 iterations).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::tile {

constexpr int kMaxLoops = 8;
constexpr int kMaxTensors = 6;
// A launch covers at most this many iterations: 32-bit indices with room for the overshoot of the last block.
constexpr std::int64_t kMaxIterations = (std::int64_t{1} << 31) - (std::int64_t{1} << 20);

// Dimensions from the slowest (0) to the fastest (rank - 1); strides in elements.
struct HostNest {
  int rank = 0;
  int tensors = 0;
  std::int64_t dims[kMaxLoops] = {};
  std::int64_t strides[kMaxTensors][kMaxLoops] = {};

  [[nodiscard]] std::int64_t count() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= dims[i];
    return product;
  }
};

// All tensors are gapless in the loops' order, so the nest is one flat loop.
[[nodiscard]] inline bool is_flat(const HostNest& nest) {
  if (nest.rank != 1) return false;
  if (nest.dims[0] == 1) return true;
  for (int t = 0; t < nest.tensors; ++t) {
    if (nest.strides[t][0] != 1) return false;
  }
  return true;
}

// Whether the fastest loop can go `width` elements at a time: each tensor is contiguous along it or does not move at
// all (a broadcast), and every pack begins at a multiple of the width. Tensor `output` must be contiguous.
[[nodiscard]] inline bool can_pack(const HostNest& nest, int width, int output) {
  const int last = nest.rank - 1;
  if (nest.rank < 1 || nest.dims[last] % width != 0 || nest.strides[output][last] != 1) return false;
  for (int t = 0; t < nest.tensors; ++t) {
    const std::int64_t inner = nest.strides[t][last];
    if (inner != 0 && inner != 1) return false;
    if (inner == 0) continue;
    for (int i = 0; i < last; ++i) {
      if (nest.strides[t][i] % width != 0) return false;
    }
  }
  return true;
}

// The nest over packs: the fastest loop shrinks by `width`, its steps grow.
[[nodiscard]] inline HostNest packed_nest(HostNest nest, int width) {
  const int last = nest.rank - 1;
  nest.dims[last] /= width;
  for (int t = 0; t < nest.tensors; ++t) nest.strides[t][last] *= width;
  return nest;
}

// Calls body(piece, offsets) for parts of the nest of at most `most` iterations each, slowest loop first; offsets[t] is
// where tensor t's part begins. Almost always one call.
template <class Body>
void for_each_piece(const HostNest& nest, std::int64_t most, const std::int64_t (&offsets)[kMaxTensors], Body&& body) {
  const std::int64_t count = nest.count();
  if (count == 0) return;
  if (count <= most) {
    body(nest, offsets);
    return;
  }
  int split = 0;
  while (nest.dims[split] == 1) ++split;
  const std::int64_t inner = count / nest.dims[split];
  const std::int64_t chunk = inner >= most ? 1 : most / inner;
  for (std::int64_t begin = 0; begin < nest.dims[split]; begin += chunk) {
    HostNest piece = nest;
    piece.dims[split] = nest.dims[split] - begin < chunk ? nest.dims[split] - begin : chunk;
    std::int64_t starts[kMaxTensors];
    for (int t = 0; t < kMaxTensors; ++t) starts[t] = offsets[t] + begin * nest.strides[t][split];
    for_each_piece(piece, most, starts, body);
  }
}

// Dimensions from the fastest (0) to the slowest.
template <int Tensors>
struct LoopNest {
  std::int32_t rank = 0;
  std::uint32_t count = 0;
  FastDivmod dims[kMaxLoops];
  std::int64_t strides[Tensors][kMaxLoops] = {};

  LoopNest() = default;
  explicit LoopNest(const HostNest& nest) : rank(nest.rank), count(static_cast<std::uint32_t>(nest.count())) {
    for (int i = 0; i < rank; ++i) {
      dims[i] = FastDivmod(static_cast<std::uint32_t>(nest.dims[rank - 1 - i]));
      for (int t = 0; t < Tensors; ++t) strides[t][i] = nest.strides[t][rank - 1 - i];
    }
  }

  // The offsets of several iterations in each tensor. One trip through the loops serves them all.
  template <int Count>
  GPUDNN_HOST_DEVICE void offsets_of(std::uint32_t (&index)[Count], std::int64_t (&offset)[Count][Tensors]) const {
    for (int u = 0; u < Count; ++u) {
      for (int t = 0; t < Tensors; ++t) offset[u][t] = 0;
    }
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int i = 0; i < rank; ++i) {
      const FastDivmod by = dims[i];
      for (int u = 0; u < Count; ++u) {
        // The slowest loop's coordinate is what is left, so no index needs to be below the count.
        std::uint32_t coordinate = index[u];
        if (i + 1 < rank) index[u] = by.divmod(index[u], &coordinate);
        for (int t = 0; t < Tensors; ++t) offset[u][t] += static_cast<std::int64_t>(coordinate) * strides[t][i];
      }
    }
  }

  // The offset in one tensor alone.
  GPUDNN_HOST_DEVICE std::int64_t offset_in(int tensor, std::uint32_t index) const {
    if (rank == 1) return static_cast<std::int64_t>(index) * strides[tensor][0];
    std::int64_t offset = 0;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int i = 0; i < rank; ++i) {
      std::uint32_t coordinate = index;
      if (i + 1 < rank) index = dims[i].divmod(index, &coordinate);
      offset += static_cast<std::int64_t>(coordinate) * strides[tensor][i];
    }
    return offset;
  }

  GPUDNN_HOST_DEVICE void offsets(std::uint32_t index, std::int64_t (&offset)[Tensors]) const {
    std::uint32_t one[1] = {index};
    std::int64_t result[1][Tensors];
    offsets_of<1>(one, result);
    for (int t = 0; t < Tensors; ++t) offset[t] = result[0][t];
  }

  // The same by plain division, for an index that does not fit 31 bits.
  GPUDNN_HOST_DEVICE void offsets_wide(std::uint64_t index, std::int64_t (&offset)[Tensors]) const {
    for (int t = 0; t < Tensors; ++t) offset[t] = 0;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int i = 0; i < rank; ++i) {
      const std::uint64_t coordinate = i + 1 < rank ? index % dims[i].divisor : index;
      index /= dims[i].divisor;
      for (int t = 0; t < Tensors; ++t) offset[t] += static_cast<std::int64_t>(coordinate) * strides[t][i];
    }
  }
};

}  // namespace gpudnn::tile
