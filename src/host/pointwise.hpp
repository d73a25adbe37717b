// Pointwise programs on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/pointwise/problem.hpp"

namespace gpudnn::host {

// `value` as an element of `type` holds it.
[[nodiscard]] double as_type(DataType type, double value) noexcept;

// One element of a program's type.
[[nodiscard]] double load_element(DataType type, const void* data, std::int64_t offset);
void store_element(DataType type, void* data, std::int64_t offset, double value);

void pointwise(const pointwise::Problem& problem, const pointwise::Args& args);

}  // namespace gpudnn::host
