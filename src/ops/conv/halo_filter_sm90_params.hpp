// From a convolution problem to the parameters of the Hopper halo filter gradient and to what its tensor maps describe,
// and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/conv/halo_filter_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// A tensor as the copy engine sees it: channel, w, h, d, image.
struct HaloFilterTensor {
  std::int64_t extent[5] = {1, 1, 1, 1, 1};
  std::int64_t step[4] = {};  // bytes between neighbours along w, h, d, image
};

struct HaloFilterPlan {
  kernels::halo_filter::Params params;  // but for maps, pointers and scalars
  kernels::halo_filter::ElementType type = kernels::halo_filter::ElementType::f16;
  HaloFilterTensor x;
  HaloFilterTensor dy;
  std::int32_t x_pixels = 0, rest_pixels = 0, dy_pixels = 0;  // of boxes
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
