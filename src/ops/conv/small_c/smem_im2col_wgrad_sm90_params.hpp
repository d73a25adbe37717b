// From a convolution problem to the parameters of the Hopper filter gradient by rows of patches and to what its tensor
// maps describe, and the engine's cost model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/tma_boxes.hpp"
#include "kernels/conv/small_c/smem_im2col_wgrad_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct SmemIm2colWgradPlan {
  kernels::smem_im2col_wgrad::Params params;  // but for the maps, pointers and scalars
  kernels::smem_im2col_wgrad::ElementType type = kernels::smem_im2col_wgrad::ElementType::f16;
  int shape = 0;
  TmaBoxes dy;  // filters, columns, rows, images
  TmaBoxes x;   // 8 bytes of a row, rows, images
  std::size_t workspace = 0;
  double seconds = 0;  // that the model expects
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* smem_im2col_wgrad_unsupported_reason(const Problem& problem);

// The best strips for the shape in config.tile; nothing where shared memory has no room for the shortest rings.
[[nodiscard]] std::optional<SmemIm2colWgradPlan> smem_im2col_wgrad_plan(const Problem& problem, const Config& config,
                                                                        int multiprocessors);

[[nodiscard]] std::size_t smem_im2col_wgrad_workspace(const Problem& problem, const Config& config);

// The cost model's candidates.
void smem_im2col_wgrad_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);
// The first of the fastest of them, if it takes `bound` seconds or less and there is no reason.
[[nodiscard]] bool smem_im2col_wgrad_fastest(const Problem& problem, int multiprocessors, double bound,
                                             Candidate* fastest);
// What none of them stays below, by a few operations on the problem; infinite where there are none.
[[nodiscard]] double smem_im2col_wgrad_least_seconds(const Problem& problem, int multiprocessors);

}  // namespace gpudnn::conv
