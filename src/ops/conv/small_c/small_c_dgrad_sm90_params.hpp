// From a convolution problem to the parameters of the Hopper data gradient for images of few channels and to what its
// tensor map describes, and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/tma_boxes.hpp"
#include "kernels/conv/small_c/small_c_dgrad_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct SmallCDgradPlan {
  kernels::small_c_dgrad::Params params;  // but for the map, pointers and scalars
  tile::ElementType type = tile::ElementType::f16;
  int shape = 0;
  std::uint32_t blocks = 0;
  bool dx_allows_vectors = false;
  TmaBoxes dy;         // filter, column, row, 1, image
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* small_c_dgrad_unsupported_reason(const Problem& problem);

// config.tile says the shape and the warpgroups of a block; nothing where shared memory has no room for them.
[[nodiscard]] std::optional<SmallCDgradPlan> small_c_dgrad_plan(const Problem& problem, const Config& config,
                                                                int multiprocessors);

// The cost model's candidates.
void small_c_dgrad_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);
// The first of the fastest of them, if it takes `bound` seconds or less and there is no reason.
[[nodiscard]] bool small_c_dgrad_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest);

}  // namespace gpudnn::conv
