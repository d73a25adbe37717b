// What the launch functions of the dropout kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/dropout/mask.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// The nest's tensors are `in` and `out`, in the order of out's memory.
struct DropoutParams {
  tile::ElementType type = tile::ElementType::f32;
  bool backward = false;
  std::uint32_t threshold = 0;
  double scale = 1;
  const void* in = nullptr;
  void* out = nullptr;
  unsigned char* reserve = nullptr;
  DropoutStates* states = nullptr;  // forward; null where nothing is dropped
  MaskOrder order;
  tile::HostNest nest;
  int multiprocessors = 1;
};

void launch_dropout(const DropoutParams& params, CUstream_st* stream);
void launch_dropout_states(DropoutStates* states, std::uint64_t seed, CUstream_st* stream);

}  // namespace gpudnn::kernels
