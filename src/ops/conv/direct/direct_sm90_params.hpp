// From a convolution problem to the parameters of the Hopper direct convolution and to what its tensor map describes,
// and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/tma_boxes.hpp"
#include "kernels/conv/direct/direct_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct DirectPlan {
  kernels::direct::Params params;  // but for the map, pointers and scalars
  kernels::direct::ElementType type = kernels::direct::ElementType::f16;
  int shape = 0;
  TmaBoxes input;   // channel, w, h, d, image
  TmaBoxes output;  // the same; 16-bit types alone
  TmaBoxes filter;  // channel, tap, filter; f32 alone
  TmaBoxes addend;  // as the output, where adds_z
  bool adds_z = false;
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* direct_unsupported_reason(const Problem& problem);

// The best tiles for the shape in config.tile; nothing where shared memory has no room for the filter and two patches.
[[nodiscard]] std::optional<DirectPlan> direct_plan(const Problem& problem, const Config& config, const Device& device);

// The configs with their expected times.
void direct_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
