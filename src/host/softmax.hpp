// Softmax on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/softmax/problem.hpp"

namespace gpudnn::host {

void softmax(const softmax::Problem& problem, const softmax::Args& args);

}  // namespace gpudnn::host
