// What the CUDA engines of normalization make of a problem and the alignment of its pointers: the way through the
// tensors and the launch shapes. Immutable; the handle keeps it, so that a second call costs one look-up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/norm/infer.hpp"
#include "ops/norm/problem.hpp"
#include "ops/norm/segments.hpp"
#include "ops/norm/shape.hpp"

namespace gpudnn::norm {

struct LaunchPlan {
  bool walk_fits = false;  // or else nothing below means anything
  kernels::NormWalk walk;
  bool infers_in_packs = false;
  kernels::NormInfer infer;
  SegmentPlan segments;
  Shape split;
  Shape cluster;
  bool split_is_faster = false;          // than `cluster`
  std::size_t split_results_bytes = 0;   // of scratch, before
  std::size_t split_partials_bytes = 0;  // those of the partial sums
};

[[nodiscard]] LaunchPlan make_plan(const Device& device, const Problem& problem);
// The handle's plan for this problem, made where there is none yet.
[[nodiscard]] std::shared_ptr<const LaunchPlan> find_plan(gpudnnHandle_t handle, const Problem& problem);

}  // namespace gpudnn::norm
