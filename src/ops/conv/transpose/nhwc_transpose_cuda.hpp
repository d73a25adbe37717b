// The engine that packs tensors of any layout into channels-last copies, runs a tensor-core engine on those, and
// unpacks the output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support nhwc_transpose_supports(const Problem& problem, const Device& device);
void nhwc_transpose_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
void nhwc_transpose_lean_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] bool nhwc_transpose_fastest(const Problem& problem, const Device& device, double bound,
                                          Candidate* fastest);
[[nodiscard]] double nhwc_transpose_least_seconds(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t nhwc_transpose_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> nhwc_transpose_prepare(const Problem& problem, const Config& config,
                                                                 const Device& device);
[[nodiscard]] Status nhwc_transpose_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
