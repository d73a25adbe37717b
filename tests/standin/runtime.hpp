// A stand-in for the CUDA runtime and the driver's tensor maps: devices that take launches, check them as the driver
// and the hardware do, and run nothing. Memory is the host's, and copies and fills are done, so that all host code of
// the CUDA backend runs without a GPU. Here is what a test asks it and tells it; the runtime's functions are in the
// .cpp files beside this one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

namespace gpudnn::standin {

constexpr int kDevices = 2;  // H200s
constexpr int kMultiprocessors = 132;
constexpr std::size_t kSharedPerBlock = 232448;
constexpr std::size_t kSharedPerMultiprocessor = 233472;

struct Launch {
  std::string kernel;  // as it was registered, mangled
  dim3 blocks, threads, cluster;
  std::size_t shared_bytes = 0;
  int device = 0;
  bool captured = false;
  bool operator==(const Launch& other) const;
};
[[nodiscard]] std::string describe(const Launch& launch);

// Since the last time, by all threads. A violation is a call or a launch that a GPU or its driver would refuse, though
// no fault was planted, or that harms a capture.
[[nodiscard]] std::vector<Launch> take_launches();
[[nodiscard]] std::vector<std::string> take_violations();
// The runtime's functions that were called and that can fail, in their order.
[[nodiscard]] std::vector<std::string> take_calls();

// What the program holds now.
struct Holdings {
  std::size_t allocations = 0;
  std::size_t bytes = 0;
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t graphs = 0;
  bool operator==(const Holdings&) const = default;
};
[[nodiscard]] Holdings holdings();

// Lets call `index` from now on fail (0: the next one), and with `lasting` each later one of the same function, with
// the error that this function gives when the device or its driver is short of something.
void plant_fault(std::size_t index, bool lasting);
struct Fault {
  std::string function;  // empty: it has not come to the call
  cudaError_t error = cudaSuccess;
};
// Ends the fault, and says what it did.
Fault remove_fault();

}  // namespace gpudnn::standin
