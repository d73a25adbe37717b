// From a convolution of integers to the parameters of the Hopper kernel and to what its tensor maps describe. No CUDA
// is needed for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/tma_boxes.hpp"
#include "kernels/conv/integer/integer_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

struct IntegerSm90Plan {
  kernels::integer::Sm90Params params;  // but for the maps, pointers and scalars
  int tile = 0;
  TmaBoxes filter;
  TmaBoxes pixels;             // box: channels and, last, rows
  std::int32_t lower[3] = {};  // im2col: first and last corner of a window, from the image's first and last pixel
  std::int32_t upper[3] = {};
  std::int32_t traversal[3] = {1, 1, 1};
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* integer_sm90_unsupported_reason(const Problem& problem);
[[nodiscard]] IntegerSm90Plan integer_sm90_plan(const Problem& problem, const Config& config);
void integer_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
