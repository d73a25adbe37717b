// The spatial transformer on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/spatial_transformer/problem.hpp"

namespace gpudnn::host {

void spatial_transformer(const spatial_transformer::Problem& problem, const spatial_transformer::Args& args);

}  // namespace gpudnn::host
