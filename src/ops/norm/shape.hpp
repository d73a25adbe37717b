// How the normalization kernels are launched: blocks, threads, what stays on chip, and how long that takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/norm.hpp"
#include "ops/norm/problem.hpp"

namespace gpudnn::norm {

struct Shape {
  int parts = 1;
  int threads = 32;
  int lanes = 1;
  int cached = 0;
  double seconds = 0;  // by the model
};

// One launch; clusters where the device has them.
[[nodiscard]] Shape cluster_shape(const Device& device, const Problem& problem, const kernels::NormWalk& walk);
// The passes as launches of their own.
[[nodiscard]] Shape split_shape(const Device& device, const Problem& problem, const kernels::NormWalk& walk);

}  // namespace gpudnn::norm
