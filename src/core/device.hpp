// The device that a handle works on, and the few runtime calls that the library makes of it. Two implementations:
// device_cuda.cpp in a build with CUDA, device_none.cpp in one without.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/device_rates.hpp"
#include "core/error.hpp"
#include "gpudnn/ext.h"

namespace gpudnn {

// What heuristics and launchers ask of a device. Immutable.
struct Device {
  gpudnnBackend_t backend = GPUDNN_BACKEND_HOST;
  int ordinal = -1;  // CUDA's number of it; -1 for the host, and for one that is only described
  int major = 0;     // compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::size_t shared_memory_per_block = 0;  // with opt-in
  std::size_t shared_memory_per_multiprocessor = 0;
  std::size_t l2_bytes = 0;
  std::string name = "host";
  DeviceRates rates;

  [[nodiscard]] int compute_capability() const noexcept { return major * 10 + minor; }
  // False for a CUDA device of which no more is known than this description: nobody can be asked about it.
  [[nodiscard]] bool is_present() const noexcept { return backend == GPUDNN_BACKEND_HOST || ordinal >= 0; }
  // Blocks that share their memory. Later devices have them too, but run the PTX of one that has not.
  [[nodiscard]] bool has_clusters() const noexcept { return major == 9; }
};

[[nodiscard]] const Device& host_device() noexcept;

namespace cuda {

// Whether this build has CUDA and a device answers. `why_not` (may be null) tells the reason otherwise.
[[nodiscard]] bool available(std::string* why_not);
// The calling thread's current device; stays valid for ever.
[[nodiscard]] Status current_device(const Device** device);
[[nodiscard]] Status allocate(const Device& device, void** pointer, std::size_t bytes);
[[nodiscard]] Status release(const Device& device, void* pointer);
// A copy in stream order; returns when it is done.
[[nodiscard]] Status copy(const Device& device, cudaStream_t stream, void* destination, const void* source,
                          std::size_t bytes);
[[nodiscard]] Status fill(const Device& device, cudaStream_t stream, void* pointer, int byte, std::size_t bytes);
[[nodiscard]] Status synchronize(const Device& device, cudaStream_t stream);
// SUCCESS when the stream's work is done, RUNTIME_IN_PROGRESS when not, a failure when the device reports one.
[[nodiscard]] Status query(const Device& device, cudaStream_t stream);
// The version of the CUDA runtime inside this library, such as 13000; 0 without CUDA.
[[nodiscard]] int runtime_version() noexcept;
// The greatest version of CUDA that the driver serves; 0 without a driver.
[[nodiscard]] int driver_version() noexcept;
// The greatest compute capability, times ten, that this build has machine code for; 0 without CUDA.
[[nodiscard]] int max_device_version() noexcept;

// Milliseconds of `repeats` calls of work(context) on the stream, after one call to warm up.
[[nodiscard]] Status time_on_stream(const Device& device, cudaStream_t stream, int repeats, Status (*work)(void*),
                                    void* context, float* milliseconds);

// Makes a device current for a scope, and the caller's again after it; where that fails, nothing is launched in it. One
// cheap call when it is already, none for the host. What touches the current device, or asks about it, stands in one.
class DeviceScope {
 public:
  explicit DeviceScope(const Device& device) noexcept : DeviceScope(device.ordinal) {}
  explicit DeviceScope(int ordinal) noexcept;  // CUDA's number; negative for the host
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_ = -1;
};

// The status of the kernel launch just made: SUCCESS, or a refusal with CUDA's own text.
[[nodiscard]] Status launch_status(const char* kernel) noexcept;

}  // namespace cuda
}  // namespace gpudnn
