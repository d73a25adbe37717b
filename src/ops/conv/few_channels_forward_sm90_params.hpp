// From a convolution problem to the parameters of the Hopper forward convolution for few channels and to what its
// tensor map describes, and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/copy_boxes.hpp"
#include "kernels/conv/few_channels_forward_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct FewChannelsForwardPlan {
  kernels::few_channels_forward::Params params;  // but for the map, pointers and scalars
  kernels::few_channels_forward::ElementType type = kernels::few_channels_forward::ElementType::f16;
  int shape = 0;
  std::uint32_t blocks = 1;
  CopyBoxes input;     // words of a row of pixels, rows, images
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* few_channels_forward_obstacle(const Problem& problem);

// The best tiles for the shape in config.tile; nothing where shared memory has no room for the filter and the patches.
[[nodiscard]] std::optional<FewChannelsForwardPlan> few_channels_forward_plan(const Problem& problem,
                                                                              const Config& config,
                                                                              int multiprocessors);

// The cost model's candidates.
void few_channels_forward_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);
// The first of the fastest of them, if it takes `bound` seconds or less and there is no obstacle.
[[nodiscard]] bool few_channels_forward_fastest(const Problem& problem, int multiprocessors, double bound,
                                                Candidate* fastest);
// What none of them stays below, by a few operations on the problem; infinite where there are none.
[[nodiscard]] double few_channels_forward_least_seconds(const Problem& problem, int multiprocessors);

}  // namespace gpudnn::conv
