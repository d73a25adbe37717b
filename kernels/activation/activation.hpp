// What the launch functions of the activation kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/element_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

enum class ActivationMode : std::int32_t { sigmoid, relu, tanh, clipped_relu, elu, identity, swish };

// Forward reads x; backward reads dy, and x or y where the derivative is written with them. The nest's tensors are, in
// order: forward x, out; backward x, y, dy, out.
struct ActivationParams {
  tile::ElementType type = tile::ElementType::f32;
  ActivationMode mode = ActivationMode::relu;
  bool propagate_nan = false;
  double coef = 0;
  double alpha = 1;
  double beta = 0;
  const void* x = nullptr;
  const void* y = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
  tile::HostNest nest;
};

void launch_activation_forward(const ActivationParams& params, CUstream_st* stream);
void launch_activation_backward(const ActivationParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
