// The classic multi-head attention on a CUDA device: a sequence of the library's own operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/multi_head_attn/buffers.hpp"

namespace gpudnn::mha {

[[nodiscard]] Status run_cuda(gpudnnHandle_t handle, const Problem& problem, const Args& args, const Buffers& buffers);

}  // namespace gpudnn::mha
