// From tensor geometries to the loops that a kernel of element-wise shape runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <span>

#include "core/geometry.hpp"
#include "kernels/tile/loop_nest.hpp"
#include "ops/element_type.hpp"

namespace gpudnn {

static_assert(tile::kMaxLoops == kMaxRank, "a nest has a loop for each dimension");

// The shortest nest over tensors of equal dimensions, in the order of those, which are merged.
[[nodiscard]] inline tile::HostNest merged_nest(TensorGeometry* tensors, int count) {
  tile::HostNest nest;
  nest.rank = merge_dimensions(tensors, count);
  nest.tensors = count;
  std::copy_n(tensors[0].dims, nest.rank, nest.dims);
  for (int t = 0; t < count; ++t) std::copy_n(tensors[t].strides, nest.rank, nest.strides[t]);
  return nest;
}

// The same in the order of the last one's memory (its smallest stride runs
// fastest), so that what it writes is written in order.
[[nodiscard]] inline tile::HostNest make_loop_nest(std::span<const TensorGeometry> tensors) {
  const TensorGeometry& leader = tensors.back();
  int order[kMaxRank];
  std::iota(order, order + leader.rank, 0);
  std::stable_sort(order, order + leader.rank, [&](int a, int b) {
    if (leader.strides[a] != leader.strides[b]) return leader.strides[a] > leader.strides[b];
    return leader.dims[a] < leader.dims[b];  // an extent of 1 may share a stride with a real dimension
  });
  const int count = static_cast<int>(tensors.size());
  TensorGeometry sorted[tile::kMaxTensors];
  for (int t = 0; t < count; ++t) {
    sorted[t] = tensors[static_cast<std::size_t>(t)];
    for (int i = 0; i < leader.rank; ++i) {
      sorted[t].dims[i] = leader.dims[order[i]];
      sorted[t].strides[i] = tensors[static_cast<std::size_t>(t)].strides[order[i]];
    }
  }
  return merged_nest(sorted, count);
}

// `tensor` stretched to `dims` by strides of zero where its extent is 1.
[[nodiscard]] inline TensorGeometry broadcast_to(TensorGeometry tensor, const TensorGeometry& like) {
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.dims[i] == 1) tensor.strides[i] = 0;
    tensor.dims[i] = like.dims[i];
  }
  return tensor;
}

}  // namespace gpudnn
