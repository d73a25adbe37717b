// The stand-in runtime: faults, errors, devices, memory, streams and events.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "standin/state.hpp"

namespace gpudnn::standin {
namespace {

constexpr std::size_t kTotalMemory = std::size_t{141} << 30;

std::string formatted(const char* format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  return text;
}

// What the function gives when the device or its driver is short of something; none breaks the context for good.
cudaError_t likely_error(std::string_view function) {
  if (function == "cudaLaunchKernelExC") return cudaErrorLaunchOutOfResources;
  if (function == "cudaSetDevice") return cudaErrorDevicesUnavailable;
  if (function == "cudaGetDevice" || function == "cudaGetDeviceCount") return cudaErrorInitializationError;
  if (function.starts_with("cudaStream") || function.starts_with("cudaThread")) return cudaErrorOperatingSystem;
  return cudaErrorMemoryAllocation;
}

}  // namespace

State& state() {
  static State* const state = new State;  // outlives every static object
  return *state;
}
ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

void violation(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  state().violations.push_back(formatted(format, arguments));
  va_end(arguments);
}

cudaError_t refuse(cudaError_t error, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  state().violations.push_back(formatted(format, arguments));
  va_end(arguments);
  return error;
}

cudaError_t enter(const char* function) {
  State& s = state();
  s.calls.emplace_back(function);
  const std::size_t index = s.calls_since_planting++;
  if (!s.fault) return cudaSuccess;
  PlantedFault& fault = *s.fault;
  const bool first = index == fault.index;
  if (!first && !(fault.lasting && fault.done.function == function)) return cudaSuccess;
  fault.done = {function, likely_error(function)};
  return fault.done.error;
}

std::vector<std::string> take_violations() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().violations, {});
}
std::vector<std::string> take_calls() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().calls, {});
}

Holdings holdings() {
  const std::lock_guard lock(state().mutex);
  const State& s = state();
  Holdings held = {s.memory.size(), 0, s.streams.size(), s.events.size(), s.graphs.size()};
  for (const auto& [address, allocation] : s.memory) held.bytes += allocation.bytes;
  return held;
}

void plant_fault(std::size_t index, bool lasting) {
  const std::lock_guard lock(state().mutex);
  state().calls_since_planting = 0;
  state().fault = PlantedFault{index, lasting, {}};
}
Fault remove_fault() {
  const std::lock_guard lock(state().mutex);
  Fault done = state().fault ? state().fault->done : Fault{};
  state().fault.reset();
  return done;
}

std::string outside_memory(std::uintptr_t address, std::uint64_t bytes) {
  const auto& memory = state().memory;
  auto next = memory.upper_bound(address);
  if (next == memory.begin()) return "which no allocation holds";
  const auto& [start, allocation] = *--next;
  if (address >= start + allocation.bytes) return "which no allocation holds";
  const std::uint64_t left = start + allocation.bytes - address;
  return bytes <= left ? "" : "of which the allocation has " + std::to_string(left);
}

}  // namespace gpudnn::standin

using namespace gpudnn::standin;  // NOLINT: the functions below are the runtime's

extern "C" {

// --- errors ----------------------------------------------------------------------------------------------------------

cudaError_t cudaGetLastError() { return std::exchange(thread_state().last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return thread_state().last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define STANDIN_NAME(name) \
  case name:               \
    return #name
    STANDIN_NAME(cudaSuccess);
    STANDIN_NAME(cudaErrorInvalidValue);
    STANDIN_NAME(cudaErrorMemoryAllocation);
    STANDIN_NAME(cudaErrorInitializationError);
    STANDIN_NAME(cudaErrorInvalidConfiguration);
    STANDIN_NAME(cudaErrorInvalidDeviceFunction);
    STANDIN_NAME(cudaErrorInvalidDevice);
    STANDIN_NAME(cudaErrorDevicesUnavailable);
    STANDIN_NAME(cudaErrorInvalidResourceHandle);
    STANDIN_NAME(cudaErrorNotReady);
    STANDIN_NAME(cudaErrorOperatingSystem);
    STANDIN_NAME(cudaErrorLaunchOutOfResources);
    STANDIN_NAME(cudaErrorInvalidClusterSize);
    STANDIN_NAME(cudaErrorCooperativeLaunchTooLarge);
    STANDIN_NAME(cudaErrorStreamCaptureUnsupported);
    STANDIN_NAME(cudaErrorStreamCaptureInvalidated);
    STANDIN_NAME(cudaErrorStreamCaptureImplicit);
    STANDIN_NAME(cudaErrorStreamCaptureWrongThread);
    STANDIN_NAME(cudaErrorCapturedEvent);
#undef STANDIN_NAME
    default:
      return "unrecognized error code";
  }
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

// --- devices ---------------------------------------------------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&] {
    *count = kDevices;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&] {
    *device = thread_state().device;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&] {
    if (device < 0 || device >= kDevices)
      return refuse(cudaErrorInvalidDevice, "cudaSetDevice(%d) of %d devices", device, kDevices);
    thread_state().device = device;
    thread_state().has_context = true;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&] {
    if (device < 0 || device >= kDevices)
      return refuse(cudaErrorInvalidDevice, "cudaGetDeviceProperties of device %d", device);
    *properties = {};
    std::strcpy(properties->name, "NVIDIA H200");
    properties->major = 9;
    properties->minor = 0;
    properties->multiProcessorCount = kMultiprocessors;
    properties->sharedMemPerBlock = 48 * 1024;
    properties->sharedMemPerBlockOptin = kSharedPerBlock;
    properties->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
    properties->l2CacheSize = 50 << 20;
    properties->totalGlobalMem = kTotalMemory;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&] {
    if (device < 0 || device >= kDevices)
      return refuse(cudaErrorInvalidDevice, "cudaDeviceGetAttribute of device %d", device);
    switch (attribute) {
      case cudaDevAttrClockRate:
        *value = 1980000;
        return cudaSuccess;
      case cudaDevAttrMemoryClockRate:
        *value = 3200000;
        return cudaSuccess;
      case cudaDevAttrGlobalMemoryBusWidth:
        *value = 6144;
        return cudaSuccess;
      case cudaDevAttrMultiProcessorCount:
        *value = kMultiprocessors;
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(kSharedPerBlock);
        return cudaSuccess;
      default:
        return refuse(cudaErrorInvalidValue, "the stand-in has no device attribute %d", static_cast<int>(attribute));
    }
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [] { return check_unsafe("cudaDeviceSynchronize"); });
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return call("cudaGetDriverEntryPointByVersion", [&] {
    *function = driver_function(name);
    *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}

// --- memory ----------------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call("cudaMalloc", [&] {
    *pointer = nullptr;
    if (const cudaError_t error = check_unsafe("cudaMalloc"); error != cudaSuccess) return error;
    thread_state().has_context = true;
    if (bytes == 0) return cudaSuccess;
    if (bytes > kTotalMemory) return cudaErrorMemoryAllocation;
    void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (memory == nullptr) return cudaErrorMemoryAllocation;
    state().memory[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, thread_state().device};
    *pointer = memory;
    return cudaSuccess;
  });
}
cudaError_t cudaFree(void* pointer) {
  return call("cudaFree", [&] {
    if (const cudaError_t error = check_unsafe("cudaFree"); error != cudaSuccess) return error;
    thread_state().has_context = true;
    if (pointer == nullptr) return cudaSuccess;
    if (state().memory.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0)
      return refuse(cudaErrorInvalidValue, "cudaFree(%p), which cudaMalloc did not give", pointer);
    std::free(pointer);
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  return call("cudaMemGetInfo", [&] {
    *total = kTotalMemory;
    *free_bytes = kTotalMemory - holdings().bytes;
    return cudaSuccess;
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call("cudaPointerGetAttributes", [&] {
    *attributes = {};
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    auto block = state().memory.upper_bound(address);
    if (block == state().memory.begin()) return cudaSuccess;
    --block;
    if (address >= block->first + block->second.bytes) return cudaSuccess;
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = block->second.device;
    attributes->devicePointer = const_cast<void*>(pointer);
    return cudaSuccess;
  });
}
cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&] {
    if (const cudaError_t error = check_stream("cudaMemsetAsync", stream); error != cudaSuccess) return error;
    if (bytes == 0) return cudaSuccess;
    if (const std::string wrong = outside_memory(reinterpret_cast<std::uintptr_t>(pointer), bytes); !wrong.empty())
      return refuse(cudaErrorInvalidValue, "cudaMemsetAsync of %zu bytes at %p, %s", bytes, pointer, wrong.c_str());
    if (Capture* const capture = capture_of(stream)) {
      const cudaGraphNode_t node = add_node(capture, cudaGraphNodeTypeMemset);
      node->memset.dst = pointer;
      node->memset.value = static_cast<unsigned>(value);
      node->memset.elementSize = 1;
      node->memset.width = bytes;
      node->memset.height = 1;
      return cudaSuccess;
    }
    std::memset(pointer, value, bytes);
    ++state().ticks;
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&] {
    if (const cudaError_t error = check_stream("cudaMemcpyAsync", stream); error != cudaSuccess) return error;
    for (const void* const pointer : {static_cast<const void*>(to), from}) {
      const auto address = reinterpret_cast<std::uintptr_t>(pointer);
      if (!outside_memory(address, 1).empty()) continue;  // the host's
      if (const std::string wrong = outside_memory(address, bytes); !wrong.empty())
        return refuse(cudaErrorInvalidValue, "cudaMemcpyAsync of %zu bytes at %p, %s", bytes, pointer, wrong.c_str());
    }
    if (Capture* const capture = capture_of(stream)) {
      const cudaGraphNode_t node = add_node(capture, cudaGraphNodeTypeMemcpy);
      node->memcpy.srcPtr.ptr = const_cast<void*>(from);
      node->memcpy.dstPtr.ptr = to;
      node->memcpy.extent = {bytes, 1, 1};
      return cudaSuccess;
    }
    std::memcpy(to, from, bytes);
    ++state().ticks;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t pitch, std::size_t width,
                              std::size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return call("cudaMemcpy2DAsync", [&] {
    if (const cudaError_t error = check_stream("cudaMemcpy2DAsync", stream); error != cudaSuccess) return error;
    if (width == 0 || height == 0) return cudaSuccess;
    if (to_pitch < width || pitch < width)
      return refuse(cudaErrorInvalidPitchValue, "cudaMemcpy2DAsync of rows of %zu bytes at a lesser pitch", width);
    for (const auto& [pointer, step] : {std::pair(static_cast<const void*>(to), to_pitch), std::pair(from, pitch)}) {
      const std::size_t bytes = (height - 1) * step + width;
      if (const std::string wrong = outside_memory(reinterpret_cast<std::uintptr_t>(pointer), bytes); !wrong.empty())
        return refuse(cudaErrorInvalidValue, "cudaMemcpy2DAsync of %zu bytes at %p, %s", bytes, pointer, wrong.c_str());
    }
    if (Capture* const capture = capture_of(stream)) {
      const cudaGraphNode_t node = add_node(capture, cudaGraphNodeTypeMemcpy);
      node->memcpy.srcPtr = {const_cast<void*>(from), pitch, width, height};
      node->memcpy.dstPtr = {to, to_pitch, width, height};
      node->memcpy.extent = {width, height, 1};
      return cudaSuccess;
    }
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * pitch, width);
    }
    ++state().ticks;
    return cudaSuccess;
  });
}

// --- streams and events ----------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&] {
    *stream = new CUstream_st{thread_state().device, (flags & cudaStreamNonBlocking) == 0};
    state().streams.insert(*stream);
    thread_state().has_context = true;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy", [&] {
    if (state().streams.erase(stream) == 0)
      return refuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy of a stream that does not exist");
    if (const auto found = state().captures.find(stream); found != state().captures.end()) {
      violation("cudaStreamDestroy of a stream that is being captured");
      state().captures.erase(found);
    }
    delete stream;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", [&] { return check_not_captured("cudaStreamSynchronize", stream); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call("cudaStreamQuery", [&] { return check_not_captured("cudaStreamQuery", stream); });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call("cudaEventCreate", [&] {
    *event = new CUevent_st{thread_state().device, {}, false};
    state().events.insert(*event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&] {
    if (state().events.erase(event) == 0)
      return refuse(cudaErrorInvalidResourceHandle, "cudaEventDestroy of an event that does not exist");
    delete event;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", [&] {
    if (const cudaError_t error = check_stream("cudaEventRecord", stream); error != cudaSuccess) return error;
    const int device = is_built_in(stream) ? thread_state().device : stream->device;
    if (!state().events.contains(event) || event->device != device)
      return refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord of no event of device %d", device);
    event->tick = state().ticks;
    event->captured = capture_of(stream) != nullptr;
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", [&] {
    if (!state().events.contains(event))
      return refuse(cudaErrorInvalidResourceHandle, "cudaEventSynchronize of an event that does not exist");
    if (event->captured) return refuse(cudaErrorCapturedEvent, "cudaEventSynchronize of a captured event");
    return cudaSuccess;
  });
}
// A hundredth of a millisecond for each piece of work.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  return call("cudaEventElapsedTime", [&] {
    if (!state().events.contains(start) || !state().events.contains(stop) || !start->tick || !stop->tick)
      return refuse(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime of events that were not recorded");
    *milliseconds = 0.01F * static_cast<float>(*stop->tick - *start->tick);
    return cudaSuccess;
  });
}

}  // extern "C"
