// Builds without CUDA have no kernels for single operations; the host's interpreter takes them.
// SPDX-License-Identifier: Apache-2.0
#include "graph/engines.hpp"

namespace gpudnn::graph {

std::vector<Config> node_configs(const Engine&, const Graph&, const Device&, std::string* why) {
  *why = "the library was built without CUDA";
  return {};
}

Status node_prepare(const Engine& engine, const GraphRef&, const Device&, const Knobs&, WorkRef*) {
  return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: the library was built without CUDA",
                       engine.name);
}

}  // namespace gpudnn::graph
