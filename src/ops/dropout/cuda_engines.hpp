// The CUDA engine of dropout, which supports everything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/dropout/problem.hpp"

namespace gpudnn::dropout {

[[nodiscard]] Status philox_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Status start_states_cuda(const LaunchSite& site, States* states, std::uint64_t seed);

}  // namespace gpudnn::dropout
