// Batch normalization on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/norm/problem.hpp"

namespace gpudnn::host {

void norm(const norm::Problem& problem, const norm::Args& args);

// Bytes of the mask: for each set whole bytes, a bit for each of its elements.
[[nodiscard]] std::size_t norm_reserve_bytes(const norm::Problem& problem) noexcept;

}  // namespace gpudnn::host
