// Builds without CUDA have no kernels for single operations and 8-bit floats; the host's interpreter takes them.
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

std::vector<Config> float8_configs(const Engine& engine, const Graph& graph, const Device& device, std::string* why) {
  return node_configs(engine, graph, device, why);
}

Status float8_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs& knobs,
                      WorkRef* work) {
  return node_prepare(engine, graph, device, knobs, work);
}

}  // namespace gpudnn::graph
