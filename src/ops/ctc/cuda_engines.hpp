// The CUDA engine of the CTC loss, which supports everything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ctc/problem.hpp"

namespace gpudnn::ctc {

[[nodiscard]] Status log_walk_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::ctc
