// Graphs of the kernels of a call.
//
// A graph is a chain of kernel nodes. Where a kernel may overlap the one ahead of it, the edge between them says so.
// What may allocate runs with the thread's capture mode relaxed, so that a capture that another thread has under way
// goes on undisturbed. Streams are told apart by their handles, which are never used later: a graph that meets another
// stream under the handle of a destroyed one is launched there as well. Contexts are told apart by their numbers, which
// are never given again: graphs of one that has ended (cudaDeviceReset) are not touched any more, as the driver crashes
// on them.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/driver_function_cuda.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "core/launch_graphs.hpp"
#include "core/relaxed_capture_cuda.hpp"
#include "kernels/tile/launch_list.hpp"

namespace gpudnn::cuda {
namespace {

using tile::Launch;
using tile::LaunchConfig;
using tile::LaunchList;

// The number of the thread's current context; 0 where it has none or the driver does not tell.
std::uint64_t current_context() noexcept {
  static const auto get_id = driver_function<decltype(&cuCtxGetId)>("cuCtxGetId");
  unsigned long long id = 0;
  return get_id != nullptr && get_id(nullptr, &id) == CUDA_SUCCESS ? id : 0;
}

// The number of the context that the runtime has on the device; 0 where it has none.
std::uint64_t context_on(const Device& device) noexcept {
  static const auto get_state = driver_function<decltype(&cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState");
  unsigned flags = 0;
  int active = 0;
  if (get_state == nullptr || get_state(device.ordinal, &flags, &active) != CUDA_SUCCESS || active == 0) return 0;
  const DeviceScope scope(device);
  if (cudaFree(nullptr) == cudaSuccess) return current_context();  // frees nothing, makes the context the thread's
  (void)cudaGetLastError();
  return 0;
}

// A sequence of kernels on a stream, with the arguments last set. Without a graph where none could be made.
struct Sequence {
  std::uint64_t context = 0;
  cudaStream_t stream = nullptr;
  std::vector<Launch> launches;
  std::vector<unsigned char> data;
  std::vector<cudaGraphNode_t> nodes;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;

  // A graph that is under way runs to its end.
  void clear() noexcept {
    if (graph == nullptr) return;
    if (executable != nullptr) (void)cudaGraphExecDestroy(executable);
    (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    executable = nullptr;
    graph = nullptr;
  }
};

bool equal(const dim3& a, const dim3& b) noexcept { return a.x == b.x && a.y == b.y && a.z == b.z; }
bool equal(const Launch& a, const Launch& b) noexcept {
  return a.kernel == b.kernel && equal(a.config.blocks, b.config.blocks) && equal(a.config.threads, b.config.threads) &&
         a.config.shared_bytes == b.config.shared_bytes && a.config.cluster == b.config.cluster &&
         a.config.overlaps == b.config.overlaps && a.count == b.count;
}
bool is_of(const Sequence& sequence, std::uint64_t context, const LaunchList& list) noexcept {
  if (sequence.context != context || sequence.stream != list.stream || sequence.launches.size() != list.launches)
    return false;
  for (std::size_t i = 0; i < list.launches; ++i) {
    if (!equal(sequence.launches[i], list.of[i])) return false;
  }
  return true;
}

std::uint64_t hash_of(std::uint64_t context, const LaunchList& list) noexcept {
  std::uint64_t hash = context ^ std::uint64_t{list.launches} << 32;
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value ^ (hash >> 29)) * 0x9e3779b97f4a7c15u; };
  mix(reinterpret_cast<std::uintptr_t>(list.stream));
  for (std::size_t i = 0; i < list.launches; ++i) {
    const LaunchConfig& config = list.of[i].config;
    mix(reinterpret_cast<std::uintptr_t>(list.of[i].kernel));
    mix(config.blocks.x | std::uint64_t{config.threads.x} << 32);
    mix(config.blocks.y | std::uint64_t{config.cluster} << 32);
    mix(config.shared_bytes);
  }
  return hash ^ hash >> 32;
}

std::size_t end_of(const LaunchList& list, std::size_t launch) noexcept {
  return launch + 1 < list.launches ? list.offset[list.of[launch + 1].first] : list.bytes;
}

cudaKernelNodeParams node_params(const Launch& launch, LaunchList* list, void** arguments) noexcept {
  for (std::size_t a = 0; a < launch.count; ++a) arguments[a] = list->data + list->offset[launch.first + a];
  cudaKernelNodeParams params = {};
  params.func = const_cast<void*>(launch.kernel);  // NOLINT
  params.gridDim = launch.config.blocks;
  params.blockDim = launch.config.threads;
  params.sharedMemBytes = static_cast<unsigned>(launch.config.shared_bytes);
  params.kernelParams = arguments;
  return params;
}

cudaError_t add_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to, bool overlaps) noexcept {
#if CUDART_VERSION >= 12030
  cudaGraphEdgeData edge = {};
  if (overlaps) {
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
  }
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, &from, &to, &edge, 1);
#else
  return cudaGraphAddDependencies_v2(graph, &from, &to, &edge, 1);
#endif
#else
  (void)overlaps;  // to wait for all of it is right, too
  return cudaGraphAddDependencies(graph, &from, &to, 1);
#endif
}

cudaError_t add_node(const Launch& launch, LaunchList* list, Sequence* sequence) noexcept {
  void* arguments[LaunchList::kMaxArguments];
  const cudaKernelNodeParams params = node_params(launch, list, arguments);
  cudaGraphNode_t node = nullptr;
  cudaError_t error = cudaGraphAddKernelNode(&node, sequence->graph, nullptr, 0, &params);
  if (error == cudaSuccess && launch.config.cluster > 1) {
    cudaKernelNodeAttrValue value = {};
    value.clusterDim.x = launch.config.cluster;
    value.clusterDim.y = 1;
    value.clusterDim.z = 1;
    error = cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value);
  }
  if (error == cudaSuccess && !sequence->nodes.empty()) {
    error = add_edge(sequence->graph, sequence->nodes.back(), node, launch.config.overlaps);
  }
  sequence->nodes.push_back(node);
  return error;
}

cudaError_t make_graph(LaunchList* list, Sequence* sequence) {
  sequence->stream = list->stream;
  sequence->launches.assign(list->of, list->of + list->launches);
  sequence->data.assign(list->data, list->data + list->bytes);
  sequence->nodes.reserve(list->launches);
  cudaError_t error = cudaGraphCreate(&sequence->graph, 0);
  for (std::size_t i = 0; i < list->launches && error == cudaSuccess; ++i) {
    error = add_node(list->of[i], list, sequence);
  }
  if (error == cudaSuccess) error = cudaGraphInstantiate(&sequence->executable, sequence->graph, 0);
  if (error == cudaSuccess) return error;
  sequence->clear();  // the kernels are launched one by one, for now and later
  (void)cudaGetLastError();
  return error;
}

void log_graph(const LaunchList& list, cudaError_t error) noexcept {
  const char* const function = call_context().function != nullptr ? call_context().function : "";
  if (error == cudaSuccess) {
    log_line(GPUDNN_SEV_INFO, call_context().handle, GPUDNN_STATUS_SUCCESS, "%s | made a launch graph of %zu kernels",
             function, list.launches);
  } else {
    log_line(GPUDNN_SEV_WARNING, call_context().handle, GPUDNN_STATUS_SUCCESS,
             "%s | no launch graph of %zu kernels can be made: %s", function, list.launches, cudaGetErrorString(error));
  }
}

// Sets the arguments of the kernels for which they are not those last set.
bool set_arguments(LaunchList* list, Sequence* sequence) noexcept {
  for (std::size_t i = 0; i < list->launches; ++i) {
    const Launch& launch = list->of[i];
    const std::size_t begin = list->offset[launch.first];
    const std::size_t bytes = end_of(*list, i) - begin;
    if (std::memcmp(list->data + begin, sequence->data.data() + begin, bytes) == 0) continue;
    void* arguments[LaunchList::kMaxArguments];
    const cudaKernelNodeParams params = node_params(launch, list, arguments);
    if (cudaGraphExecKernelNodeSetParams(sequence->executable, sequence->nodes[i], &params) != cudaSuccess)
      return false;
    std::memcpy(sequence->data.data() + begin, list->data + begin, bytes);
  }
  return true;
}

}  // namespace

struct LaunchGraphs::State {
  // A program with ever new shapes must not fill the device with graphs: what comes later is launched kernel by kernel.
  static constexpr std::size_t kMaxSequences = 256;

  const Device* device = nullptr;  // of the graphs, once there is one
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Sequence> sequences;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (device == nullptr) return;
    const RelaxedCapture relaxed;
    const std::uint64_t context = context_on(*device);
    for (auto& [hash, sequence] : sequences) {
      if (sequence.context == context) sequence.clear();
    }
  }

  // Null where the kernels have to be launched one by one: there are too many sequences, or one has another's hash.
  Sequence* find(const LaunchList& list, bool* fresh) {
    const std::uint64_t context = current_context();
    if (context == 0) return nullptr;
    const std::uint64_t hash = hash_of(context, list);
    const auto found = sequences.find(hash);
    *fresh = found == sequences.end();
    if (!*fresh) return is_of(found->second, context, list) ? &found->second : nullptr;
    if (sequences.size() >= kMaxSequences) return nullptr;
    Sequence& made = sequences[hash];
    made.context = context;
    return &made;
  }

  // False where nothing was launched.
  bool launch(const Device& on, LaunchList* list) {
    bool fresh = false;
    bool launched = false;
    cudaError_t made = cudaSuccess;
    {
      const std::unique_lock lock(mutex, std::try_to_lock);
      if (!lock.owns_lock()) return false;
      Sequence* const sequence = find(*list, &fresh);
      if (sequence == nullptr) return false;
      if (fresh) {
        const RelaxedCapture relaxed;
        device = &on;
        made = make_graph(list, sequence);
      }
      if (sequence->executable != nullptr) {
        launched = set_arguments(list, sequence) && cudaGraphLaunch(sequence->executable, list->stream) == cudaSuccess;
        if (!launched) {
          const RelaxedCapture relaxed;
          sequence->clear();
        }
      }
    }
    if (fresh) log_graph(*list, made);  // not under the lock: a callback may call the library
    return launched;
  }
};

LaunchGraphs::LaunchGraphs() noexcept = default;
LaunchGraphs::~LaunchGraphs() = default;
void LaunchGraphs::enable() { state_ = std::make_unique<State>(); }

namespace detail {
namespace {

bool is_captured(cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &state) == cudaSuccess) return state != cudaStreamCaptureStatusNone;
  (void)cudaGetLastError();  // the legacy stream while another is captured: the launches will say so
  return true;
}

// The thread's launches go to the list for as long as it lives.
struct Listing {
  explicit Listing(LaunchList* list) noexcept { tile::set_thread_launches(list); }
  ~Listing() { tile::set_thread_launches(nullptr); }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;
};

}  // namespace

Status launch_together(const LaunchSite& site, Status (*launches)(const void*), const void* context) {
  if (site.graphs == nullptr || site.graphs->state() == nullptr || tile::thread_launches() != nullptr) {
    return launches(context);
  }
  const DeviceScope scope(site.device);
  if (is_captured(site.stream)) return launches(context);
  LaunchList list(site.stream);
  {
    const Listing listing(&list);
    GPUDNN_TRY(launches(context));
  }
  if (list.launches > 1 && site.graphs->state()->launch(site.device, &list)) return GPUDNN_STATUS_SUCCESS;
  tile::launch_all(list);
  return launch_status("one of the kernels of the call");
}

}  // namespace detail
}  // namespace gpudnn::cuda
