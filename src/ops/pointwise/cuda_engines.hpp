// The CUDA engines of pointwise programs, best first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/program.hpp"
#include "ops/pointwise/loops.hpp"

namespace gpudnn::pointwise {

// One kernel for the whole program; no reduction.
[[nodiscard]] Support supports_program_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status program_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

// One kernel for the program and its reductions, a small one more where the folded elements are split, and one more
// pair for each further set of dimensions that is folded.
[[nodiscard]] Support supports_program_reduce_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status program_reduce_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] std::size_t workspace_size_cuda(const Problem& problem, const Device& device);

// What both need: the parameters of a problem over loops.
[[nodiscard]] kernels::ProgramParams program_params(const Problem& problem, const Args& args, const Loops& loops,
                                                    const Device& device);

}  // namespace gpudnn::pointwise
