// The engine that packs tensors of any layout into channels-last copies, runs a tensor-core engine on those, and
// unpacks the output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support via_nhwc_supports(const Problem& problem, const Device& device);
void via_nhwc_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
void via_nhwc_lean_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] bool via_nhwc_fastest(const Problem& problem, const Device& device, double bound, Candidate* fastest);
[[nodiscard]] double via_nhwc_least_seconds(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t via_nhwc_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> via_nhwc_prepare(const Problem& problem, const Config& config,
                                                           const Device& device);
[[nodiscard]] Status via_nhwc_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
