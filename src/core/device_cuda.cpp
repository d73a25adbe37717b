// The device calls of a build with CUDA.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "core/device.hpp"
#include "core/launch/failed_scope_cuda.hpp"
#include "core/stream_capture.hpp"

namespace gpudnn {
namespace {

// Scopes that this thread is in and that could not make their device current, and the latest cause.
thread_local int failed_scopes = 0;
thread_local cudaError_t scope_error = cudaSuccess;
constexpr int kFailed = -2;  // in place of a scope's previous device

// A failed call leaves its error for the thread's next cudaGetLastError: taken here, so that it is told once.
Status failed(cudaError_t error, const char* what) noexcept {
  (void)cudaGetLastError();
  const Status status = error == cudaErrorMemoryAllocation ? GPUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                                                           : GPUDNN_STATUS_EXECUTION_FAILED_CUDART;
  return GPUDNN_REFUSE(status, "%s failed: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

#define GPUDNN_CUDA(expression)                                                                             \
  do {                                                                                                      \
    if (const cudaError_t error_ = (expression); error_ != cudaSuccess) return failed(error_, #expression); \
  } while (false)

Status read_device(int ordinal, Device* device) {
  cudaDeviceProp properties;
  GPUDNN_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  device->backend = GPUDNN_BACKEND_CUDA;
  device->ordinal = ordinal;
  device->major = properties.major;
  device->minor = properties.minor;
  device->multiprocessors = properties.multiProcessorCount;
  device->shared_memory_per_block = properties.sharedMemPerBlockOptin;
  device->shared_memory_per_multiprocessor = properties.sharedMemPerMultiprocessor;
  device->l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  device->name = properties.name;
  int clock = 0;  // kHz
  int memory_clock = 0;
  int bus_bits = 0;
  GPUDNN_CUDA(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, ordinal));
  GPUDNN_CUDA(cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, ordinal));
  GPUDNN_CUDA(cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, ordinal));
  device->rates = device_rates({device->name, device->major, device->minor, device->multiprocessors, 1e3 * clock,
                                1e3 * memory_clock, static_cast<double>(bus_bits)});
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

const Device& host_device() noexcept {
  static const Device device;
  return device;
}

namespace cuda {

bool available(std::string* why_not) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return true;
  (void)cudaGetLastError();
  if (why_not != nullptr) *why_not = error != cudaSuccess ? cudaGetErrorString(error) : "no CUDA device was found";
  return false;
}

Status current_device(const Device** device) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<const Device>>* const known = new std::vector<std::unique_ptr<const Device>>;
  int ordinal = 0;
  GPUDNN_CUDA(cudaGetDevice(&ordinal));
  const std::lock_guard lock(mutex);
  const auto index = static_cast<std::size_t>(ordinal);
  if (known->size() <= index) known->resize(index + 1);
  if ((*known)[index] == nullptr) {
    auto read = std::make_unique<Device>();
    GPUDNN_TRY(read_device(ordinal, read.get()));
    (*known)[index] = std::move(read);
  }
  *device = (*known)[index].get();
  return GPUDNN_STATUS_SUCCESS;
}

// Within a scope: a call would meet another device where the scope failed.
static Status require_scope() noexcept {
  const cudaError_t error = failed_scope();
  return error == cudaSuccess ? GPUDNN_STATUS_SUCCESS : failed(error, "making the handle's device current");
}

Status allocate(const Device& device, void** pointer, std::size_t bytes) {
  const DeviceScope scope(device);
  GPUDNN_TRY(require_scope());
  const cudaError_t error = cudaMalloc(pointer, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    return GPUDNN_REFUSE(GPUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                         "the device is out of memory: %zu bytes needed, %zu of %zu free", bytes, free_bytes,
                         total_bytes);
  }
  GPUDNN_CUDA(error);
  return GPUDNN_STATUS_SUCCESS;
}

Status release(const Device& device, void* pointer) {
  const DeviceScope scope(device);
  // Freed even where the device could not be made current: CUDA knows whose memory it is.
  if (failed_scope() != cudaSuccess) (void)cudaGetLastError();
  GPUDNN_CUDA(cudaFree(pointer));
  return GPUDNN_STATUS_SUCCESS;
}

Status copy(const Device& device, cudaStream_t stream, void* destination, const void* source, std::size_t bytes) {
  const DeviceScope scope(device);
  GPUDNN_TRY(require_scope());
  GPUDNN_CUDA(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream));
  GPUDNN_CUDA(cudaStreamSynchronize(stream));
  return GPUDNN_STATUS_SUCCESS;
}

Status fill(const Device& device, cudaStream_t stream, void* pointer, int byte, std::size_t bytes) {
  const DeviceScope scope(device);
  GPUDNN_TRY(require_scope());
  GPUDNN_CUDA(cudaMemsetAsync(pointer, byte, bytes, stream));
  return GPUDNN_STATUS_SUCCESS;
}

Status synchronize(const Device& device, cudaStream_t stream) {
  const DeviceScope scope(device);
  GPUDNN_TRY(require_scope());
  GPUDNN_CUDA(cudaStreamSynchronize(stream));
  return GPUDNN_STATUS_SUCCESS;
}

Status query(const Device& device, cudaStream_t stream) {
  const DeviceScope scope(device);
  GPUDNN_TRY(require_scope());
  const cudaError_t error = cudaStreamQuery(stream);
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return GPUDNN_STATUS_RUNTIME_IN_PROGRESS;
  }
  GPUDNN_CUDA(error);
  return GPUDNN_STATUS_SUCCESS;
}

bool is_capturing(const Device& device, cudaStream_t stream) noexcept {
  const DeviceScope scope(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

int runtime_version() noexcept { return CUDART_VERSION; }
int driver_version() noexcept {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}
int max_device_version() noexcept { return GPUDNN_MAX_DEVICE_VERSION; }

Status time_on_stream(const Device& device, cudaStream_t stream, int repeats, Status (*work)(void*), void* context,
                      float* milliseconds) {
  const DeviceScope scope(device);
  GPUDNN_TRY(require_scope());
  struct Events {
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    ~Events() {
      for (const cudaEvent_t event : {start, stop}) {
        if (event != nullptr && cudaEventDestroy(event) != cudaSuccess) (void)cudaGetLastError();
      }
    }
  } events;
  GPUDNN_CUDA(cudaEventCreate(&events.start));
  GPUDNN_CUDA(cudaEventCreate(&events.stop));
  GPUDNN_TRY(work(context));
  GPUDNN_CUDA(cudaEventRecord(events.start, stream));
  for (int i = 0; i < repeats; ++i) GPUDNN_TRY(work(context));
  GPUDNN_CUDA(cudaEventRecord(events.stop, stream));
  GPUDNN_CUDA(cudaEventSynchronize(events.stop));
  GPUDNN_CUDA(cudaEventElapsedTime(milliseconds, events.start, events.stop));
  *milliseconds /= static_cast<float>(repeats);
  return GPUDNN_STATUS_SUCCESS;
}

DeviceScope::DeviceScope(int ordinal) noexcept {
  if (ordinal < 0) return;
  int current = -1;
  cudaError_t error = cudaGetDevice(&current);
  if (error == cudaSuccess && current == ordinal) return;
  if (error == cudaSuccess) error = cudaSetDevice(ordinal);
  if (error == cudaSuccess) {
    previous_ = current;
  } else {
    previous_ = kFailed;
    scope_error = error;
    ++failed_scopes;
  }
}
DeviceScope::~DeviceScope() {
  if (previous_ == kFailed) --failed_scopes;
  if (previous_ >= 0 && cudaSetDevice(previous_) != cudaSuccess) (void)cudaGetLastError();
}

cudaError_t failed_scope() noexcept { return failed_scopes > 0 ? scope_error : cudaSuccess; }

Status launch_status(const char* kernel) noexcept {
  cudaError_t error = cudaGetLastError();
  if (failed_scopes > 0) error = scope_error;  // nothing was launched, whoever took the runtime's error since
  if (error == cudaSuccess) return GPUDNN_STATUS_SUCCESS;
  return GPUDNN_REFUSE(GPUDNN_STATUS_EXECUTION_FAILED, "the launch of %s failed: %s (%s)", kernel,
                       cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace cuda
}  // namespace gpudnn
