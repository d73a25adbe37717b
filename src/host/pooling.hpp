// Pooling on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/pooling/problem.hpp"

namespace gpudnn::host {

void pooling(const pooling::Problem& problem, const pooling::Args& args);

}  // namespace gpudnn::host
