// The stand-in runtime: captures, what they forbid, and graphs.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "standin/state.hpp"

namespace gpudnn::standin {
namespace {

bool relaxed(const Capture& capture) { return capture.mode == cudaStreamCaptureModeRelaxed; }

// Whether the capture forbids unsafe calls to the calling thread.
bool forbids(const Capture& capture) {
  const cudaStreamCaptureMode mode = thread_state().capture_mode;
  if (mode == cudaStreamCaptureModeRelaxed || relaxed(capture)) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
}

cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode, cudaGraph_t graph) {
  if (is_built_in(stream) || !state().streams.contains(stream))
    return refuse(cudaErrorInvalidResourceHandle, "a capture of a stream that cannot be captured");
  if (capture_of(stream) != nullptr) return refuse(cudaErrorInvalidValue, "a capture of a stream that is captured");
  Capture capture;
  capture.mode = mode;
  capture.thread = std::this_thread::get_id();
  capture.owns_graph = graph == nullptr;
  capture.graph = graph != nullptr ? graph : new CUgraph_st;
  state().captures[stream] = capture;
  return cudaSuccess;
}

cudaError_t known(const char* function, cudaGraph_t graph) {
  return state().graphs.contains(graph) ? cudaSuccess
                                        : refuse(cudaErrorInvalidValue, "%s of a graph that does not exist", function);
}

// As the runtime gives lists: how many there are, or the first `*count` of them.
void give(const std::vector<cudaGraphNode_t>& from, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) {
    *count = std::min(*count, from.size());
    std::copy_n(from.begin(), *count, nodes);
  } else {
    *count = from.size();
  }
}

cudaError_t of_type(const char* function, cudaGraphNode_t node, cudaGraphNodeType type) {
  return node->type == type ? cudaSuccess : refuse(cudaErrorInvalidValue, "%s of a node of another type", function);
}

CUresult CUDAAPI get_kernel_parameters(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return driver_call("cuGraphKernelNodeGetParams", [&] {
    *params = node->kernel;
    return of_type("cuGraphKernelNodeGetParams", node, cudaGraphNodeTypeKernel) == cudaSuccess
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult CUDAAPI set_kernel_parameters(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return driver_call("cuGraphKernelNodeSetParams", [&] {
    node->kernel = *params;
    return of_type("cuGraphKernelNodeSetParams", node, cudaGraphNodeTypeKernel) == cudaSuccess
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  });
}

}  // namespace

void* graph_driver_function(std::string_view name) {
  if (name == "cuGraphKernelNodeGetParams") return reinterpret_cast<void*>(&get_kernel_parameters);
  if (name == "cuGraphKernelNodeSetParams") return reinterpret_cast<void*>(&set_kernel_parameters);
  return nullptr;
}

Capture* capture_of(cudaStream_t stream) {
  const auto found = state().captures.find(stream);
  return found != state().captures.end() ? &found->second : nullptr;
}

cudaError_t check_stream(const char* function, cudaStream_t stream) {
  if (!is_built_in(stream)) {
    if (!state().streams.contains(stream))
      return refuse(cudaErrorInvalidResourceHandle, "%s on a stream that does not exist", function);
    const Capture* const capture = capture_of(stream);
    return capture != nullptr && !capture->valid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  }
  for (auto& [captured, capture] : state().captures) {
    if (!captured->blocking || relaxed(capture)) continue;
    capture.valid = false;
    return refuse(cudaErrorStreamCaptureImplicit, "%s on the default stream, which waits for one that is captured",
                  function);
  }
  return cudaSuccess;
}

cudaError_t check_unsafe(const char* function) {
  bool forbidden = false;
  for (auto& [stream, capture] : state().captures) {
    if (!forbids(capture)) continue;
    capture.valid = false;
    forbidden = true;
  }
  return forbidden ? refuse(cudaErrorStreamCaptureUnsupported, "%s in a capture", function) : cudaSuccess;
}

cudaError_t check_not_captured(const char* function, cudaStream_t stream) {
  if (Capture* const capture = capture_of(stream)) {
    capture->valid = false;
    return refuse(cudaErrorStreamCaptureUnsupported, "%s of a stream that is being captured", function);
  }
  return check_stream(function, stream);
}

cudaGraphNode_t add_node(Capture* capture, cudaGraphNodeType type) {
  capture->graph->nodes.push_back(std::make_unique<CUgraphNode_st>());
  const cudaGraphNode_t node = capture->graph->nodes.back().get();
  node->type = type;
  (capture->last != nullptr ? capture->last->followers : capture->graph->roots).push_back(node);
  capture->last = node;
  return node;
}

}  // namespace gpudnn::standin

using namespace gpudnn::standin;  // NOLINT: the functions below are the runtime's

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&] {
    std::swap(*mode, thread_state().capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&] { return begin(stream, mode, nullptr); });
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t*,
                                          const cudaGraphEdgeData*, std::size_t, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCaptureToGraph", [&] {
    const cudaError_t error = known("cudaStreamBeginCaptureToGraph", graph);
    return error != cudaSuccess ? error : begin(stream, mode, graph);
  });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&] {
    const auto found = state().captures.find(stream);
    *status = found == state().captures.end() ? cudaStreamCaptureStatusNone
              : found->second.valid           ? cudaStreamCaptureStatusActive
                                              : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture", [&] {
    *graph = nullptr;
    const auto found = state().captures.find(stream);
    if (found == state().captures.end())
      return refuse(cudaErrorInvalidValue, "cudaStreamEndCapture of a stream that is not captured");
    const Capture capture = found->second;
    if (!relaxed(capture) && capture.thread != std::this_thread::get_id())
      return refuse(cudaErrorStreamCaptureWrongThread, "cudaStreamEndCapture by another thread");
    state().captures.erase(found);
    if (!capture.valid) {
      if (capture.owns_graph) delete capture.graph;
      return cudaErrorStreamCaptureInvalidated;
    }
    if (capture.owns_graph) state().graphs.insert(capture.graph);
    *graph = capture.graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  return call("cudaGraphCreate", [&] {
    *graph = new CUgraph_st;
    state().graphs.insert(*graph);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&] {
    if (const cudaError_t error = known("cudaGraphDestroy", graph); error != cudaSuccess) return error;
    state().graphs.erase(graph);
    delete graph;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetRootNodes", [&] {
    if (const cudaError_t error = known("cudaGraphGetRootNodes", graph); error != cudaSuccess) return error;
    give(graph->roots, nodes, count);
    return cudaSuccess;
  });
}
#if CUDART_VERSION >= 13000
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                           std::size_t* count) {
#else
cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                              std::size_t* count) {
#endif
  return call("cudaGraphNodeGetDependentNodes", [&] {
    give(node->followers, nodes, count);
    for (std::size_t i = 0; i < *count && nodes != nullptr; ++i) {
      const auto type = nodes[i]->overlaps ? cudaGraphDependencyTypeProgrammatic : cudaGraphDependencyTypeDefault;
      if (edges == nullptr && nodes[i]->overlaps) return cudaErrorLossyQuery;
      if (edges != nullptr) edges[i] = {0, 0, static_cast<unsigned char>(type), {}};
    }
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call("cudaGraphNodeGetType", [&] {
    *type = node->type;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* params) {
  return call("cudaGraphMemsetNodeGetParams", [&] {
    *params = node->memset;
    return of_type("cudaGraphMemsetNodeGetParams", node, cudaGraphNodeTypeMemset);
  });
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return call("cudaGraphMemsetNodeSetParams", [&] {
    node->memset = *params;
    return of_type("cudaGraphMemsetNodeSetParams", node, cudaGraphNodeTypeMemset);
  });
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  return call("cudaGraphMemcpyNodeGetParams", [&] {
    *params = node->memcpy;
    return of_type("cudaGraphMemcpyNodeGetParams", node, cudaGraphNodeTypeMemcpy);
  });
}
cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return call("cudaGraphMemcpyNodeSetParams", [&] {
    node->memcpy = *params;
    return of_type("cudaGraphMemcpyNodeSetParams", node, cudaGraphNodeTypeMemcpy);
  });
}

}  // extern "C"
