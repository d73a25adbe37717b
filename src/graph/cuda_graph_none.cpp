// Builds without CUDA have no CUDA graphs.
// SPDX-License-Identifier: Apache-2.0
#include "graph/cuda_graph.hpp"

namespace gpudnn::graph {

Status populate_cuda_graph(gpudnnHandle_t, const PlanRef&, const Pack&, cudaGraph_t) {
  return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API,
                       "the host backend has no CUDA graphs; use gpudnnBackendExecute");
}

Status update_cuda_graph(gpudnnHandle_t, const PlanRef&, const Pack&, cudaGraph_t) {
  return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API,
                       "the host backend has no CUDA graphs; use gpudnnBackendExecute");
}

}  // namespace gpudnn::graph
