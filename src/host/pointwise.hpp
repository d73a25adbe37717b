// Pointwise programs on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/pointwise/problem.hpp"

namespace gpudnn::host {

// `value` as an element of `type` holds it.
[[nodiscard]] double as_type(DataType type, double value) noexcept;

void pointwise(const pointwise::Problem& problem, const pointwise::Args& args);

}  // namespace gpudnn::host
