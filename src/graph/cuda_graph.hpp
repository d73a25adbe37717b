// Plans as nodes of CUDA graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/plan.hpp"

namespace gpudnn::graph {

// Adds the plan's kernels to a graph. NOT_SUPPORTED on the host backend.
[[nodiscard]] Status populate_cuda_graph(gpudnnHandle_t handle, const PlanRef& plan, const Pack& pack,
                                         cudaGraph_t graph);
// Sets the parameters of the kernels of a graph that populate_cuda_graph filled, or of a clone of it.
[[nodiscard]] Status update_cuda_graph(gpudnnHandle_t handle, const PlanRef& plan, const Pack& pack, cudaGraph_t graph);

}  // namespace gpudnn::graph
