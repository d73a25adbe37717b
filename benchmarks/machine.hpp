// Where the work is done and how it is timed: memory, copies and clocks of the CUDA device (timing_cuda.cpp) or of the
// host (timing_host.cpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpudnn/gpudnn.h"

namespace gpudnn::bench {

// One call of a library, everything bound.
using Call = std::function<gpudnnStatus_t()>;

struct Repeats {
  double min_seconds = 0.2;  // of wall time, for all calls of the interleaving together
  int least = 10;
  int most = 200;
};

struct Timing {
  double seconds = 0;    // the median
  int repeats = 0;       // 0: the call failed, `status` says how
  bool captured = true;  // false: it could not be captured into a graph, and host time may be in it
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
};

// A failure of the device itself throws std::runtime_error: nothing measured after it would mean anything.
class Machine {
 public:
  virtual ~Machine() = default;

  [[nodiscard]] virtual bool is_host() const noexcept = 0;
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual cudaStream_t stream() const noexcept = 0;

  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  virtual void upload(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void download(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void fill_bytes(void* destination, int byte, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

  // Times the calls in turn, one run of each after the other, so that drifts of the clock meet all of them alike.
  [[nodiscard]] virtual std::vector<Timing> time_interleaved(std::span<const Call> calls, const Repeats& repeats) = 0;
  // The host's time for launching a kernel that does nothing; 0 on the host.
  [[nodiscard]] virtual double empty_launch_seconds() = 0;
  // Bytes read and written per second by a large copy; 0 on the host.
  [[nodiscard]] virtual double copy_bytes_per_second() = 0;
};

[[nodiscard]] std::unique_ptr<Machine> make_host_machine();
// Null, with *why, without a CUDA device. Its context exists from then on.
[[nodiscard]] std::unique_ptr<Machine> make_cuda_machine(std::string* why);

// The host's time for one call: the median over `count` calls in a loop that waits for the device every 20 calls only,
// so that the queue neither fills nor is waited for within a sample.
[[nodiscard]] double host_seconds_per_call(Machine& machine, const Call& call, int count);

[[nodiscard]] double median(std::vector<double> values);

// Memory of a machine.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Machine& machine, std::size_t bytes) : machine_(&machine), bytes_(bytes) {
    if (bytes > 0) pointer_ = machine.allocate(bytes);
  }
  Buffer(Buffer&& other) noexcept
      : machine_(other.machine_), pointer_(std::exchange(other.pointer_, nullptr)), bytes_(other.bytes_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(machine_, other.machine_);
    std::swap(pointer_, other.pointer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (pointer_ != nullptr) machine_->release(pointer_);
  }
  [[nodiscard]] void* get() const noexcept { return pointer_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  Machine* machine_ = nullptr;
  void* pointer_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace gpudnn::bench
