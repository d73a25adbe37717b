// Local response and divisive normalization on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/lrn/problem.hpp"

namespace gpudnn::host {

void lrn(const lrn::Problem& problem, const lrn::Args& args);

}  // namespace gpudnn::host
