// The CUDA engine of reductions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/reduce/problem.hpp"

namespace gpudnn::reduce {

[[nodiscard]] std::size_t workspace_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status reduce_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::reduce
