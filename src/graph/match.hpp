// What the engines have in common that match graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "core/error.hpp"
#include "graph/graph.hpp"

namespace gpudnn::graph {

inline bool no_match(std::string* why, std::string reason) {
  *why = std::move(reason);
  return false;
}

// Whether an operation's own checks of a problem passed; if not, their sentence is the reason.
inline bool passed(Status status, std::string* why) {
  if (status == GPUDNN_STATUS_SUCCESS) return true;
  *why = last_error_text();
  clear_last_error();
  return false;
}

inline const Tensor& tensor_at(const Graph& graph, int place) { return graph.tensors[static_cast<std::size_t>(place)]; }

// Whether strides alone tell where the elements lie in memory.
inline bool is_plain(const Tensor& t) {
  return !t.by_value && t.ragged == Tensor::kNone && t.vector_count == 1 && t.reordering == 0;
}

}  // namespace gpudnn::graph
