// The CTC loss on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ctc/problem.hpp"

namespace gpudnn::host {

void ctc_loss(const ctc::Problem& problem, const ctc::Args& args);

}  // namespace gpudnn::host
