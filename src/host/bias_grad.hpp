// The bias gradient on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/bias_grad/problem.hpp"

namespace gpudnn::host {

void bias_grad(const bias_grad::Problem& problem, const bias_grad::Args& args);

}  // namespace gpudnn::host
