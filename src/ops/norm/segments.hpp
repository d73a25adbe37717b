// How a normalization goes over segments: groups, parts, blocks, and what a model expects of that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/norm/infer.hpp"
#include "kernels/norm/segments.hpp"
#include "ops/norm/problem.hpp"

namespace gpudnn::norm {

struct SegmentPlan {
  const char* reason_against = nullptr;  // why there is none; `seconds` is 0 then
  kernels::NormSegments segments;
  int parts = 1;
  int threads = 32;
  bool shares = false;      // some blocks share a multiprocessor while others have none
  std::size_t scratch = 0;  // bytes
  double seconds = 0;       // by the model
};

// The best way with the call's scratch memory.
[[nodiscard]] SegmentPlan plan_segments(const Device& device, const Problem& problem, const kernels::NormWalk& walk);
// How inference goes in packs of 16 bytes; false where it cannot.
[[nodiscard]] bool describe_infer(const Problem& problem, const kernels::NormWalk& walk, kernels::NormInfer* infer);

}  // namespace gpudnn::norm
