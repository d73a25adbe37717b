// The sum and the sum of squares of each channel of y in one kernel, where the device has one for its layout. Elsewhere
// they are two reductions and a product (plan.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/handle.hpp"
#include "ops/fused_ops/channel_affine.hpp"

namespace gpudnn::fused_ops {

struct SumsProblem {
  TensorGeometry y;
  ChannelVector sum;
  ChannelVector squares;
};
struct SumsArgs {
  const void* y = nullptr;  // at a multiple of 16 bytes
  void* sum = nullptr;
  void* squares = nullptr;
  void* workspace = nullptr;
};

// Whether there is such a kernel, and the bytes of workspace that it needs.
[[nodiscard]] bool takes_sums(const SumsProblem& problem, const Device& device, std::size_t* workspace);
// Only where there is.
[[nodiscard]] Status run(gpudnnHandle_t handle, const SumsProblem& problem, const SumsArgs& args);

}  // namespace gpudnn::fused_ops
