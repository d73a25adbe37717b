// Dropout on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/dropout/problem.hpp"

namespace gpudnn::host {

void dropout(const dropout::Problem& problem, const dropout::Args& args);

}  // namespace gpudnn::host
