// From the problem and a call's pointers to what the kernels and the host reference are told.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"
#include "ops/attention/problem.hpp"

namespace gpudnn::attention {

[[nodiscard]] kernels::AttentionParams attention_params(const Problem& problem, const Args& args);

}  // namespace gpudnn::attention
