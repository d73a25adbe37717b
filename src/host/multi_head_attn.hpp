// The classic multi-head attention on the host: the definition, in double from input to output. The oracle of the
// composed CUDA operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/multi_head_attn/buffers.hpp"

namespace gpudnn::host {

void multi_head_attn(const mha::Problem& problem, const mha::Args& args, const mha::Buffers& buffers);

}  // namespace gpudnn::host
