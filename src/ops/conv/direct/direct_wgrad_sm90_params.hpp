// From a convolution problem to the parameters of the Hopper direct filter gradient and to what its tensor maps
// describe, and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/tma_boxes.hpp"
#include "kernels/conv/direct/direct_wgrad_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct DirectWgradPlan {
  kernels::direct_wgrad::Params params;  // but for maps, pointers and scalars
  kernels::direct_wgrad::ElementType type = kernels::direct_wgrad::ElementType::f16;
  // Channel, w, h, d, image.
  TmaBoxes x;
  TmaBoxes x_rest;  // of a row's last pixels, where has_rest
  TmaBoxes dy;
  bool has_rest = false;
  std::size_t workspace = 0;
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* direct_wgrad_unsupported_reason(const Problem& problem);

// The best strips for the config's splits; nothing where shared memory has no room for the least rings.
[[nodiscard]] std::optional<DirectWgradPlan> direct_wgrad_plan(const Problem& problem, const Config& config,
                                                               int multiprocessors);

[[nodiscard]] std::size_t direct_wgrad_workspace(const Problem& problem, const Config& config);

// The cost model's candidates.
void direct_wgrad_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
