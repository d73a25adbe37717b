// From a convolution problem to the parameters of the Hopper filter gradient by rows of patches and to what its tensor
// maps describe, and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/copy_boxes.hpp"
#include "kernels/conv/patch_rows_filter_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct PatchRowsFilterPlan {
  kernels::patch_rows_filter::Params params;  // but for the maps, pointers and scalars
  kernels::patch_rows_filter::ElementType type = kernels::patch_rows_filter::ElementType::f16;
  int shape = 0;
  CopyBoxes dy;  // filters, columns, rows, images
  CopyBoxes x;   // 8 bytes of a row, rows, images
  std::size_t workspace = 0;
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* patch_rows_filter_obstacle(const Problem& problem);

// The best strips for the shape in config.tile; nothing where shared memory has no room for the shortest rings.
[[nodiscard]] std::optional<PatchRowsFilterPlan> patch_rows_filter_plan(const Problem& problem, const Config& config,
                                                                        int multiprocessors);

[[nodiscard]] std::size_t patch_rows_filter_workspace(const Problem& problem, const Config& config);

// The cost model's candidates.
void patch_rows_filter_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);
// The first of the fastest of them, if it takes `bound` seconds or less and there is no obstacle.
[[nodiscard]] bool patch_rows_filter_fastest(const Problem& problem, int multiprocessors, double bound,
                                             Candidate* fastest);
// What none of them stays below, by a few operations on the problem; infinite where there are none.
[[nodiscard]] double patch_rows_filter_least_seconds(const Problem& problem, int multiprocessors);

}  // namespace gpudnn::conv
