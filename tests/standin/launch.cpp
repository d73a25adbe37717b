// The stand-in runtime: kernels, what is asked and told about them, and launches, which are checked and recorded.
// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "standin/state.hpp"

namespace gpudnn::standin {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kPortableCluster = 8;
constexpr unsigned kGreatestCluster = 16;
constexpr std::size_t kReservedShared = 1024;  // of each block
// Multiprocessors of the GPCs of an H200, in one of which a cluster lies.
constexpr int kGpcs[] = {16, 16, 16, 16, 16, 16, 18, 18};

unsigned long long volume(const dim3& d) { return 1ULL * d.x * d.y * d.z; }
std::string text_of(const dim3& d) {
  return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
}

// By threads and shared memory; registers are not known here, and launch bounds keep them from deciding.
int blocks_per_multiprocessor(unsigned long long threads, std::size_t shared_bytes) {
  if (threads == 0 || threads > kMaxThreads || shared_bytes > kSharedPerBlock) return 0;
  const unsigned long long by_threads = 2048 / ((threads + 31) / 32 * 32);
  const unsigned long long by_shared = kSharedPerMultiprocessor / (shared_bytes + kReservedShared);
  return static_cast<int>(std::min({by_threads, by_shared, 32ULL}));
}

std::string wrong_cluster(const Kernel& kernel, const dim3& cluster, const dim3& blocks) {
  const bool divides = cluster.x != 0 && cluster.y != 0 && cluster.z != 0 && blocks.x % cluster.x == 0 &&
                       blocks.y % cluster.y == 0 && blocks.z % cluster.z == 0;
  if (!divides) return "clusters of " + text_of(cluster) + " do not divide the grid of " + text_of(blocks);
  const bool larger = kernel.non_portable_clusters[thread_state().device];
  const unsigned most = larger ? kGreatestCluster : kPortableCluster;
  if (volume(cluster) <= most) return "";
  return "clusters of " + std::to_string(volume(cluster)) + " blocks; this kernel may have " + std::to_string(most);
}

// A launch's shape from the runtime's attributes.
struct Attributes {
  dim3 cluster = {1, 1, 1};
  bool cooperative = false;
  bool overlaps = false;
};
Attributes read_attributes(const cudaLaunchConfig_t& config) {
  Attributes found;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      const auto& d = attribute.val.clusterDim;
      found.cluster = dim3(d.x, d.y, d.z);
    } else if (attribute.id == cudaLaunchAttributeCooperative) {
      found.cooperative = attribute.val.cooperative != 0;
    } else if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      found.overlaps = attribute.val.programmaticStreamSerializationAllowed != 0;
    } else {
      violation("the stand-in has no launch attribute %d", static_cast<int>(attribute.id));
    }
  }
  return found;
}

Kernel* find_kernel(const char* function, const void* address) {
  const auto found = state().kernels.find(address);
  if (found != state().kernels.end()) return &found->second;
  violation("%s of %p, which is no kernel", function, address);
  return nullptr;
}

}  // namespace

bool Launch::operator==(const Launch& other) const {
  const auto same = [](const dim3& a, const dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; };
  return kernel == other.kernel && same(blocks, other.blocks) && same(threads, other.threads) &&
         same(cluster, other.cluster) && shared_bytes == other.shared_bytes && device == other.device;
}

std::string describe(const Launch& launch) {
  int status = 0;
  char* const name = abi::__cxa_demangle(launch.kernel.c_str(), nullptr, nullptr, &status);
  std::string text = name != nullptr ? name : launch.kernel;
  std::free(name);
  return text + ": blocks " + text_of(launch.blocks) + ", threads " + text_of(launch.threads) + ", clusters " +
         text_of(launch.cluster) + ", " + std::to_string(launch.shared_bytes) + " bytes of shared memory, device " +
         std::to_string(launch.device);
}

std::vector<Launch> take_launches() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().launches, {});
}

std::string wrong_shape(const Kernel& kernel, const Launch& launch) {
  const dim3& b = launch.blocks;
  const dim3& t = launch.threads;
  if (volume(b) == 0 || b.x > 0x7fffffffU || b.y > 65535 || b.z > 65535) return "a grid of " + text_of(b);
  if (volume(t) == 0 || volume(t) > kMaxThreads || t.z > 64) return "blocks of " + text_of(t) + " threads";
  const auto allowed = static_cast<std::size_t>(kernel.dynamic_shared[launch.device]);
  if (launch.shared_bytes > allowed)
    return std::to_string(launch.shared_bytes) + " bytes of shared memory; the kernel may have " +
           std::to_string(allowed);
  return wrong_cluster(kernel, launch.cluster, b);
}

}  // namespace gpudnn::standin

using namespace gpudnn::standin;  // NOLINT: the functions below are the runtime's

extern "C" {

// --- what the compiler's code calls ----------------------------------------------------------------------------------

void** __cudaRegisterFatBinary(void* binary) { return static_cast<void**>(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* address, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  state().kernels[address].name = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
char __cudaInitModule(void**) { return 0; }

// <<<>>> is used nowhere, but each kernel has the code of it.
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, CUstream_st*) { return cudaErrorNotSupported; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return cudaErrorNotSupported; }
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaErrorNotSupported; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return refuse(cudaErrorNotSupported, "a launch by <<<>>>");
}

// --- kernels ---------------------------------------------------------------------------------------------------------

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return call("cudaFuncGetAttributes", [&] {
    Kernel* const kernel = find_kernel("cudaFuncGetAttributes", function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    thread_state().has_context = true;
    *attributes = {};
    attributes->maxThreadsPerBlock = kMaxThreads;
    attributes->numRegs = 64;
    attributes->ptxVersion = 90;
    attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = kernel->dynamic_shared[thread_state().device];
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return call("cudaFuncSetAttribute", [&] {
    Kernel* const kernel = find_kernel("cudaFuncSetAttribute", function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    thread_state().has_context = true;
    const int device = thread_state().device;
    switch (attribute) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || value > static_cast<int>(kSharedPerBlock))
          return refuse(cudaErrorInvalidValue, "%s: %d bytes of shared memory", kernel->name.c_str(), value);
        kernel->dynamic_shared[device] = value;
        return cudaSuccess;
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100)
          return refuse(cudaErrorInvalidValue, "%s: a carveout of %d", kernel->name.c_str(), value);
        return cudaSuccess;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        kernel->non_portable_clusters[device] = value != 0;
        return cudaSuccess;
      default:
        return refuse(cudaErrorInvalidValue, "the stand-in has no kernel attribute %d", static_cast<int>(attribute));
    }
  });
}

// What the runtime's header calls under the name without flags.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   std::size_t shared_bytes, unsigned) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    if (find_kernel("cudaOccupancyMaxActiveBlocksPerMultiprocessor", function) == nullptr)
      return cudaErrorInvalidDeviceFunction;
    thread_state().has_context = true;
    *blocks = blocks_per_multiprocessor(static_cast<unsigned>(threads), shared_bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig_t* config) {
  return call("cudaOccupancyMaxActiveClusters", [&] {
    const Kernel* const kernel = find_kernel("cudaOccupancyMaxActiveClusters", function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    thread_state().has_context = true;
    const dim3 cluster = read_attributes(*config).cluster;
    if (const std::string wrong = wrong_cluster(*kernel, cluster, config->gridDim); !wrong.empty())
      return refuse(cudaErrorInvalidClusterSize, "%s: %s", kernel->name.c_str(), wrong.c_str());
    const int blocks = blocks_per_multiprocessor(volume(config->blockDim), config->dynamicSmemBytes);
    *clusters = 0;
    for (const int gpc : kGpcs) *clusters += gpc * blocks / static_cast<int>(volume(cluster));
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return call("cudaLaunchKernelExC", [&] {
    const Kernel* const kernel = find_kernel("cudaLaunchKernelExC", function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (const cudaError_t error = check_stream("cudaLaunchKernelExC", config->stream); error != cudaSuccess)
      return error;
    thread_state().has_context = true;
    const Attributes attributes = read_attributes(*config);
    Capture* const capture = capture_of(config->stream);
    const Launch launch = {kernel->name,       config->gridDim,          config->blockDim,
                           attributes.cluster, config->dynamicSmemBytes, thread_state().device,
                           capture != nullptr};
    if (!is_built_in(config->stream) && config->stream->device != launch.device)
      return refuse(cudaErrorInvalidResourceHandle, "%s, on a stream of device %d", describe(launch).c_str(),
                    config->stream->device);
    if (const std::string wrong = wrong_shape(*kernel, launch); !wrong.empty())
      return refuse(cudaErrorInvalidConfiguration, "%s: %s", describe(launch).c_str(), wrong.c_str());
    if (arguments == nullptr) return refuse(cudaErrorInvalidValue, "%s: no arguments", describe(launch).c_str());
    const auto resident = static_cast<unsigned long long>(
        blocks_per_multiprocessor(volume(launch.threads), launch.shared_bytes) * kMultiprocessors);
    // An answer, which callers ask for.
    if (attributes.cooperative && volume(launch.blocks) > resident) return cudaErrorCooperativeLaunchTooLarge;
    if (capture != nullptr) {
      const bool follows_kernel = capture->last != nullptr && capture->last->type == cudaGraphNodeTypeKernel;
      const cudaGraphNode_t node = add_node(capture, cudaGraphNodeTypeKernel);
      node->overlaps = attributes.overlaps && follows_kernel;
      node->kernel.func = static_cast<CUfunction>(const_cast<void*>(function));
      node->kernel.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
    }
    ++state().ticks;
    state().launches.push_back(launch);
    return cudaSuccess;
  });
}

}  // extern "C"
