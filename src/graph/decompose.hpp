// Operations as simpler ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "graph/graph.hpp"

namespace gpudnn::graph {

// The graph with operation `node` replaced by pointwise operations and reductions that compute the same, in place of
// it; their intermediate results are further virtual tensors, behind the graph's own. Nothing if the operation has no
// such form.
//
// Operations: gen_stats, bn_finalize, bn_weights; norm_fwd of batch normalization or with statistics that are given;
// norm_bwd of batch normalization; products of 8-bit, 16-bit and float ones, as products of float ones. Variances are
// sums of squared distances from the mean, in a second pass over x.
[[nodiscard]] std::optional<Graph> decomposed(const Graph& graph, std::size_t node);

}  // namespace gpudnn::graph
