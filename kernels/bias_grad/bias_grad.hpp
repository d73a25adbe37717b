// What the launch function of the bias-gradient kernels takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/element_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

struct BiasGradParams {
  tile::ElementType type = tile::ElementType::f32;
  double alpha = 1;
  double beta = 0;
  const void* dy = nullptr;
  void* db = nullptr;
  std::int64_t channels = 0;
  std::int64_t dy_channel_step = 0;
  std::int64_t db_channel_step = 0;
  tile::HostNest sum;  // one tensor: what is summed for a channel
  int multiprocessors = 1;
  bool has_clusters = false;  // compute capability 9.0
};
void launch_bias_grad(const BiasGradParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
