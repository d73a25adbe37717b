// What makes a tensor, and the numbers of an operation, legal by themselves: asked of descriptors when they are
// finalized, and of what is read from a text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.hpp"

namespace gpudnn::graph {

constexpr std::int64_t kMaxPadding = std::int64_t{1} << 31;  // of paddings, strides, windows and dilations too

// Extents, strides, vectors, and one number where it is passed by value.
[[nodiscard]] Status check_tensor(const Tensor& tensor);

}  // namespace gpudnn::graph
