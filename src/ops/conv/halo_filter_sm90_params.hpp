// From a convolution problem to the parameters of the Hopper halo filter gradient and to what its tensor maps describe,
// and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/copy_boxes.hpp"
#include "kernels/conv/halo_filter_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct HaloFilterPlan {
  kernels::halo_filter::Params params;  // but for maps, pointers and scalars
  kernels::halo_filter::ElementType type = kernels::halo_filter::ElementType::f16;
  // Channel, w, h, d, image.
  CopyBoxes x;
  CopyBoxes x_rest;  // of a row's last pixels, where has_rest
  CopyBoxes dy;
  bool has_rest = false;
  std::size_t workspace = 0;
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* halo_filter_obstacle(const Problem& problem);

// The best strips for the config's splits; nothing where shared memory has no room for the least rings.
[[nodiscard]] std::optional<HaloFilterPlan> halo_filter_plan(const Problem& problem, const Config& config,
                                                             int multiprocessors);

[[nodiscard]] std::size_t halo_filter_workspace(const Problem& problem, const Config& config);

// The cost model's candidates.
void halo_filter_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
