// Plans as nodes of CUDA graphs: the plan is executed on a stream that is being captured, so the nodes are those that
// the engines launch. An update captures again, and copies the new parameters to the old nodes, one after the other;
// those of kernels by the driver's functions, as the runtime does not know the kernels that cuBLASLt launches.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "core/driver_function_cuda.hpp"
#include "graph/cuda_graph.hpp"

namespace gpudnn::graph {
namespace {

Status cuda_status(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return GPUDNN_STATUS_SUCCESS;
  static_cast<void>(cudaGetLastError());
  return GPUDNN_REFUSE(GPUDNN_STATUS_EXECUTION_FAILED_CUDART, "%s failed: %s (%s)", what, cudaGetErrorName(error),
                       cudaGetErrorString(error));
}

// A stream of its own, so that nothing of the handle's is captured.
class CaptureStream {
 public:
  CaptureStream() = default;
  ~CaptureStream() {
    if (stream_ != nullptr && cudaStreamDestroy(stream_) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
  CaptureStream(const CaptureStream&) = delete;
  CaptureStream& operator=(const CaptureStream&) = delete;
  [[nodiscard]] Status create() {
    return cuda_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

Status capture_into(gpudnnHandle_t handle, const PlanRef& plan, const Pack& pack, cudaGraph_t graph) {
  GPUDNN_REQUIRE(handle->device->backend == GPUDNN_BACKEND_CUDA, GPUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API,
                 "the host backend has no CUDA graphs; use gpudnnBackendExecute");
  const cuda::DeviceScope scope(*handle->device);
  CaptureStream stream;
  GPUDNN_TRY(stream.create());
  // Operations take device and stream from a handle: one for this call, with the capture's stream.
  gpudnnContext capturing;
  capturing.device = handle->device;
  capturing.stream = stream.get();
  GPUDNN_TRY(cuda_status(
      cudaStreamBeginCaptureToGraph(stream.get(), graph, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal),
      "cudaStreamBeginCaptureToGraph"));
  const Status status = execute(&capturing, plan, pack);
  cudaGraph_t same = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream.get(), &same);
  GPUDNN_TRY(status);
  return cuda_status(ended, "cudaStreamEndCapture");
}

// The node behind `node`, or null. An edge of programmatic dependent launch has data, which the runtime insists on
// giving.
Status follower_of(cudaGraphNode_t node, cudaGraphNode_t* follower) {
  cudaGraphNode_t followers[2] = {};
  std::size_t count = 2;
#if CUDART_VERSION >= 13000
  cudaGraphEdgeData edges[2] = {};
  GPUDNN_TRY(
      cuda_status(cudaGraphNodeGetDependentNodes(node, followers, edges, &count), "cudaGraphNodeGetDependentNodes"));
#elif CUDART_VERSION >= 12030
  cudaGraphEdgeData edges[2] = {};
  GPUDNN_TRY(
      cuda_status(cudaGraphNodeGetDependentNodes_v2(node, followers, edges, &count), "cudaGraphNodeGetDependentNodes"));
#else
  GPUDNN_TRY(cuda_status(cudaGraphNodeGetDependentNodes(node, followers, &count), "cudaGraphNodeGetDependentNodes"));
#endif
  GPUDNN_REQUIRE(count <= 1, GPUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH,
                 "a node of the graph has several followers; a plan's has one");
  *follower = count == 0 ? nullptr : followers[0];
  return GPUDNN_STATUS_SUCCESS;
}

// The nodes of a chain, from its root on.
Status chain_of(cudaGraph_t graph, std::vector<cudaGraphNode_t>* nodes) {
  std::size_t count = 0;
  GPUDNN_TRY(cuda_status(cudaGraphGetRootNodes(graph, nullptr, &count), "cudaGraphGetRootNodes"));
  if (count == 0) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_REQUIRE(count == 1, GPUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH,
                 "the graph has %zu first nodes; a plan's has one", count);
  cudaGraphNode_t node = nullptr;
  GPUDNN_TRY(cuda_status(cudaGraphGetRootNodes(graph, &node, &count), "cudaGraphGetRootNodes"));
  while (node != nullptr) {
    nodes->push_back(node);
    GPUDNN_TRY(follower_of(node, &node));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status copy_kernel_parameters(cudaGraphNode_t from, cudaGraphNode_t to) {
  static const auto get = cuda::driver_function<decltype(&cuGraphKernelNodeGetParams)>("cuGraphKernelNodeGetParams");
  static const auto set = cuda::driver_function<decltype(&cuGraphKernelNodeSetParams)>("cuGraphKernelNodeSetParams");
  GPUDNN_REQUIRE(get != nullptr && set != nullptr, GPUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER,
                 "the driver has no cuGraphKernelNodeSetParams of CUDA 12; update it");
  CUDA_KERNEL_NODE_PARAMS params = {};
  CUresult result = get(from, &params);
  if (result == CUDA_SUCCESS) result = set(to, &params);
  return result == CUDA_SUCCESS ? GPUDNN_STATUS_SUCCESS
                                : GPUDNN_REFUSE(GPUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER,
                                                "copying a kernel node's parameters failed with the driver's error %d",
                                                static_cast<int>(result));
}

Status copy_parameters(cudaGraphNode_t from, cudaGraphNode_t to) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  cudaGraphNodeType other = cudaGraphNodeTypeEmpty;
  GPUDNN_TRY(cuda_status(cudaGraphNodeGetType(from, &type), "cudaGraphNodeGetType"));
  GPUDNN_TRY(cuda_status(cudaGraphNodeGetType(to, &other), "cudaGraphNodeGetType"));
  GPUDNN_REQUIRE(type == other, GPUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH,
                 "a node of the graph is of another type than the plan's");
  if (type == cudaGraphNodeTypeKernel) {
    return copy_kernel_parameters(from, to);
  }
  if (type == cudaGraphNodeTypeMemset) {
    cudaMemsetParams params = {};
    GPUDNN_TRY(cuda_status(cudaGraphMemsetNodeGetParams(from, &params), "cudaGraphMemsetNodeGetParams"));
    return cuda_status(cudaGraphMemsetNodeSetParams(to, &params), "cudaGraphMemsetNodeSetParams");
  }
  if (type == cudaGraphNodeTypeMemcpy) {
    cudaMemcpy3DParms params = {};
    GPUDNN_TRY(cuda_status(cudaGraphMemcpyNodeGetParams(from, &params), "cudaGraphMemcpyNodeGetParams"));
    return cuda_status(cudaGraphMemcpyNodeSetParams(to, &params), "cudaGraphMemcpyNodeSetParams");
  }
  return type == cudaGraphNodeTypeEmpty ? GPUDNN_STATUS_SUCCESS
                                        : GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH,
                                                        "a node of the graph is none that a plan makes");
}

}  // namespace

Status populate_cuda_graph(gpudnnHandle_t handle, const PlanRef& plan, const Pack& pack, cudaGraph_t graph) {
  return capture_into(handle, plan, pack, graph);
}

Status update_cuda_graph(gpudnnHandle_t handle, const PlanRef& plan, const Pack& pack, cudaGraph_t graph) {
  cudaGraph_t fresh = nullptr;
  GPUDNN_TRY(cuda_status(cudaGraphCreate(&fresh, 0), "cudaGraphCreate"));
  std::vector<cudaGraphNode_t> from;
  std::vector<cudaGraphNode_t> to;
  Status status = capture_into(handle, plan, pack, fresh);
  if (status == GPUDNN_STATUS_SUCCESS) status = chain_of(fresh, &from);
  if (status == GPUDNN_STATUS_SUCCESS) status = chain_of(graph, &to);
  if (status == GPUDNN_STATUS_SUCCESS && from.size() != to.size())
    status = GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH, "the graph has %zu nodes, the plan %zu",
                           to.size(), from.size());
  for (std::size_t i = 0; i < from.size() && status == GPUDNN_STATUS_SUCCESS; ++i)
    status = copy_parameters(from[i], to[i]);
  if (cudaGraphDestroy(fresh) != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status;
}

}  // namespace gpudnn::graph
