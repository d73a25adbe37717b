// From a convolution problem to the parameters of the Hopper forward convolution for few channels and to what its
// tensor map describes, and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/tma_boxes.hpp"
#include "kernels/conv/small_c/small_c_fwd_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct SmallCFwdPlan {
  kernels::small_c_fwd::Params params;  // but for the map, pointers and scalars
  kernels::small_c_fwd::ElementType type = kernels::small_c_fwd::ElementType::f16;
  int shape = 0;
  std::uint32_t blocks = 1;
  TmaBoxes input;      // words of a row of pixels, rows, images
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* small_c_fwd_unsupported_reason(const Problem& problem);

// The best tiles for the shape in config.tile; nothing where shared memory has no room for the filter and the patches.
[[nodiscard]] std::optional<SmallCFwdPlan> small_c_fwd_plan(const Problem& problem, const Config& config,
                                                            int multiprocessors);

// The cost model's candidates.
void small_c_fwd_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);
// The first of the fastest of them, if it takes `bound` seconds or less and there is no reason.
[[nodiscard]] bool small_c_fwd_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest);
// What none of them stays below, by a few operations on the problem; infinite where there are none.
[[nodiscard]] double small_c_fwd_least_seconds(const Problem& problem, int multiprocessors);

}  // namespace gpudnn::conv
