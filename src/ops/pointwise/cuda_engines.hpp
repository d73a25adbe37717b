// The CUDA engines of pointwise programs, best first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/pointwise/problem.hpp"

namespace gpudnn::pointwise {

// One kernel for the whole program; no reduction.
[[nodiscard]] Support supports_program_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status program_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::pointwise
