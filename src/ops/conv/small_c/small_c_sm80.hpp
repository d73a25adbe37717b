// The engine for images of few channels, the first layer of most networks: tensor cores, one or two spatial dimensions,
// up to 8 channels, any filter count, stride, padding and layout, all three directions. For sm_80 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support small_c_sm80_supports(const Problem& problem, const Device& device);
void small_c_sm80_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] bool small_c_sm80_fastest(const Problem& problem, const Device& device, double bound, Candidate* fastest);
[[nodiscard]] double small_c_sm80_least_seconds(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t small_c_sm80_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> small_c_sm80_prepare(const Problem& problem, const Config& config,
                                                               const Device& device);
[[nodiscard]] Status small_c_sm80_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
