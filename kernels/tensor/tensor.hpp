// What the launch functions of the tensor kernels (fill, linear, transpose) take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/element_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// out = one element's bytes, everywhere. The nest's only tensor is out.
struct FillParams {
  int element_bytes = 4;  // 1, 2, 4, 8, 16 or 32
  alignas(32) unsigned char value[32] = {};
  void* out = nullptr;
  tile::HostNest nest;
};
void launch_fill(const FillParams& params, CUstream_st* stream);

// out = alpha * in + beta * out. The nest's tensors are in and out; in may stand still along some loops.
struct LinearParams {
  tile::ElementType in_type = tile::ElementType::f32;
  tile::ElementType out_type = tile::ElementType::f32;
  double alpha = 1;
  double beta = 0;
  const void* in = nullptr;
  void* out = nullptr;
  tile::HostNest nest;
};
void launch_linear(const LinearParams& params, CUstream_st* stream);

// The same where in and out run fastest along different loops: `in_loop` is the one along which in is contiguous; out
// is contiguous along the last. Neither tensor stands still along any loop.
void launch_transpose(const LinearParams& params, int in_loop, CUstream_st* stream);

}  // namespace gpudnn::kernels
