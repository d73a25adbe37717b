// Layer normalization on the host: the reference of all engines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/layer_norm/problem.hpp"

namespace gpudnn::host {

void layer_norm(const layer_norm::Problem& problem, const layer_norm::Args& args);

}  // namespace gpudnn::host
