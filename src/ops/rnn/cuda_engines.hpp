// The CUDA engines of recurrent networks. Rows of the engine list, best first:
//   persistent_sm90  the weights of the recurrence stay on chip over the steps, one launch a sweep
//   streaming        one launch a step; takes all
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/rnn/problem.hpp"

namespace gpudnn::rnn {

[[nodiscard]] Support supports_resident(const Problem& problem, const Device& device);
[[nodiscard]] Status resident_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Support supports_split(const Problem& problem, const Device& device);
[[nodiscard]] Status split_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Support supports_persistent(const Problem& problem, const Device& device);
[[nodiscard]] Status persistent_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Status streaming_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::rnn
