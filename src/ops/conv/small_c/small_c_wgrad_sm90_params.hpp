// From a convolution problem to the parameters of the Hopper filter gradient of images with few channels and to what
// its tensor map describes, and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/tma_boxes.hpp"
#include "kernels/conv/small_c/small_c_wgrad_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct SmallCWgradPlan {
  kernels::small_c_wgrad::Params params;  // but for the map, pointers and scalars
  kernels::small_c_wgrad::ElementType type = kernels::small_c_wgrad::ElementType::f16;
  int shape = 0;
  TmaBoxes dy;  // filters, columns, rows, images
  std::size_t workspace = 0;
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* small_c_wgrad_unsupported_reason(const Problem& problem);

// The best strips for the shape in config.tile; nothing where shared memory has no room for the shortest rings.
[[nodiscard]] std::optional<SmallCWgradPlan> small_c_wgrad_plan(const Problem& problem, const Config& config,
                                                                int multiprocessors);

[[nodiscard]] std::size_t small_c_wgrad_workspace(const Problem& problem, const Config& config);

// The cost model's candidates.
void small_c_wgrad_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);
// The first of the fastest of them, if it takes `bound` seconds or less and there is no reason.
[[nodiscard]] bool small_c_wgrad_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest);
// What none of them stays below, by a few operations on the problem.
[[nodiscard]] double small_c_wgrad_least_seconds(const Problem& problem, int multiprocessors);

}  // namespace gpudnn::conv
