// What the stand-in runtime keeps, for its functions alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "standin/runtime.hpp"

// The runtime's handles point to these.
struct CUgraphNode_st {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  cudaMemsetParams memset = {};
  cudaMemcpy3DParms memcpy = {};
  std::vector<cudaGraphNode_t> followers;
  bool overlaps = false;  // the kernel before it: the edge between them has data
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  std::vector<cudaGraphNode_t> roots;
};
struct CUstream_st {
  int device = 0;
  bool blocking = true;  // waits for the legacy stream
};
struct CUevent_st {
  int device = 0;
  std::optional<std::uint64_t> tick;  // of its last record
  bool captured = false;
};

namespace gpudnn::standin {

struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  cudaGraph_t graph = nullptr;
  bool owns_graph = true;
  cudaGraphNode_t last = nullptr;
  bool valid = true;
};

struct Kernel {
  std::string name;
  int dynamic_shared[kDevices] = {48 * 1024, 48 * 1024};
  bool non_portable_clusters[kDevices] = {};
};

struct Allocation {
  std::size_t bytes = 0;
  int device = 0;
};

struct PlantedFault {
  std::size_t index = 0;
  bool lasting = false;
  Fault done;
};

struct State {
  std::recursive_mutex mutex;
  std::map<const void*, Kernel> kernels;
  std::map<std::uintptr_t, Allocation> memory;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::map<cudaStream_t, Capture> captures;
  std::uint64_t ticks = 0;  // of work on all streams
  std::vector<Launch> launches;
  std::vector<std::string> violations;
  std::vector<std::string> calls;
  std::size_t calls_since_planting = 0;
  std::optional<PlantedFault> fault;
};
State& state();

struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  bool has_context = false;
};
ThreadState& thread_state();

[[gnu::format(printf, 1, 2)]] void violation(const char* format, ...);
// The same, as what the function returns.
[[gnu::format(printf, 2, 3)]] cudaError_t refuse(cudaError_t error, const char* format, ...);

// Counts a call of a function that can fail. The error that is planted for it, or success.
cudaError_t enter(const char* function);

// The body of a function of the runtime: under the lock, unless a fault is planted; its error stays with the thread.
template <class Body>
cudaError_t call(const char* function, Body body) {
  const std::lock_guard lock(state().mutex);
  cudaError_t error = enter(function);
  if (error == cudaSuccess) error = body();
  if (error != cudaSuccess) thread_state().last_error = error;
  return error;
}

// The same for a function of the driver.
template <class Body>
CUresult driver_call(const char* function, Body body) {
  const std::lock_guard lock(state().mutex);
  return enter(function) == cudaSuccess ? body() : CUDA_ERROR_OUT_OF_MEMORY;
}

// Streams that are no object: the legacy one, and the thread's own.
[[nodiscard]] inline bool is_built_in(cudaStream_t stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }
// Null unless the stream is being captured.
[[nodiscard]] Capture* capture_of(cudaStream_t stream);
// For work on a stream: that the stream lives, and that it harms no capture.
[[nodiscard]] cudaError_t check_stream(const char* function, cudaStream_t stream);
// For a call that captures forbid.
[[nodiscard]] cudaError_t check_unsafe(const char* function);
// For a call that waits for a stream, or asks for its state.
[[nodiscard]] cudaError_t check_not_captured(const char* function, cudaStream_t stream);
cudaGraphNode_t add_node(Capture* capture, cudaGraphNodeType type);

// Empty if [address, address + bytes) lies in one allocation.
[[nodiscard]] std::string outside_memory(std::uintptr_t address, std::uint64_t bytes);

// What is wrong with the shape of a launch; nothing if the hardware takes it.
[[nodiscard]] std::string wrong_shape(const Kernel& kernel, const Launch& launch);

// The driver's function of that name; null if the stand-in has none.
[[nodiscard]] void* driver_function(const char* name);
[[nodiscard]] void* graph_driver_function(std::string_view name);

}  // namespace gpudnn::standin
