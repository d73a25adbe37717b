// What the launch functions of the softmax kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>

#include "kernels/tile/element_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// The tensors of both nests are a, b, out: forward x, x, y; backward y, dy, dx.
struct SoftmaxParams {
  tile::ElementType type = tile::ElementType::f32;
  bool backward = false;
  bool logarithm = false;
  double alpha = 1;
  double beta = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  tile::HostNest within;   // the elements that are normalised together
  tile::HostNest between;  // the groups of them
  int multiprocessors = 1;
  bool has_clusters = false;       // compute capability 9.0
  std::int64_t shared_memory = 0;  // that a block may have
};

// The elements from the first to the last of a tensor.
[[nodiscard]] inline std::int64_t softmax_extent(const SoftmaxParams& params, int tensor) {
  std::int64_t extent = 1;
  for (const tile::HostNest* nest : {&params.within, &params.between}) {
    for (int i = 0; i < nest->rank; ++i) extent += (nest->dims[i] - 1) * nest->strides[tensor][i];
  }
  return extent;
}

// Groups whose elements lie one after the other in each tensor.
[[nodiscard]] bool softmax_rows_fit(const SoftmaxParams& params);
void launch_softmax_rows(const SoftmaxParams& params, CUstream_st* stream);

// Groups that lie side by side: element i of neighbouring groups is contiguous in each tensor.
[[nodiscard]] bool softmax_columns_fit(const SoftmaxParams& params);
void launch_softmax_columns(const SoftmaxParams& params, CUstream_st* stream);

// Any strides.
void launch_softmax_strided(const SoftmaxParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
