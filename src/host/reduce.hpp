// Reductions on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/reduce/problem.hpp"

namespace gpudnn::host {

void reduce(const reduce::Problem& problem, const reduce::Args& args);

}  // namespace gpudnn::host
