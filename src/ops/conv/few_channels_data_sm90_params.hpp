// From a convolution problem to the parameters of the Hopper data gradient for images of few channels and to what its
// tensor map describes, and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/copy_boxes.hpp"
#include "kernels/conv/few_channels_data_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct FewChannelsDataPlan {
  kernels::few_channels_data::Params params;  // but for the map, pointers and scalars
  tile::ElementType type = tile::ElementType::f16;
  int shape = 0;
  std::uint32_t blocks = 0;
  bool dx_allows_vectors = false;
  CopyBoxes dy;        // filter, column, row, 1, image
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* few_channels_data_obstacle(const Problem& problem);

// config.tile says the shape and the warpgroups of a block; nothing where shared memory has no room for them.
[[nodiscard]] std::optional<FewChannelsDataPlan> few_channels_data_plan(const Problem& problem, const Config& config,
                                                                        int multiprocessors);

// The cost model's candidates.
void few_channels_data_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);
// The first of the fastest of them, if it takes `bound` seconds or less and there is no obstacle.
[[nodiscard]] bool few_channels_data_fastest(const Problem& problem, int multiprocessors, double bound,
                                             Candidate* fastest);

}  // namespace gpudnn::conv
