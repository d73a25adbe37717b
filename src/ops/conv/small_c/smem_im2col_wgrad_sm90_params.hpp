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
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* smem_im2col_wgrad_unsupported_reason(const Problem& problem);

// The best strips for the shape in config.tile; nothing where shared memory has no room for the shortest rings.
[[nodiscard]] std::optional<SmemIm2colWgradPlan> smem_im2col_wgrad_plan(const Problem& problem, const Config& config,
                                                                        const Device& device);

[[nodiscard]] std::size_t smem_im2col_wgrad_workspace(const Problem& problem, const Config& config);

// The configs with their expected times.
void smem_im2col_wgrad_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
