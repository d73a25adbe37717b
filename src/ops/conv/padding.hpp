// Padding that differs before and behind. Problem::pad is what lies before; y's extents tell how far windows reach, so
// what lies behind follows from them. The classic interface has the same padding on both sides; graphs do not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

[[nodiscard]] bool has_even_padding(const Problem& problem) noexcept;

// Of an engine that takes its output's extents from the padding: a reason against, or null.
[[nodiscard]] inline const char* uneven_padding_unsupported_reason(const Problem& problem) noexcept {
  return has_even_padding(problem) ? nullptr : "the padding differs before and behind";
}

}  // namespace gpudnn::conv
