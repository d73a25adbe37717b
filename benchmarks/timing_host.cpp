// The host as the machine: malloc, memcpy and the wall clock; and what both machines share.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "machine.hpp"

namespace gpudnn::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class HostMachine : public Machine {
 public:
  bool is_host() const noexcept override { return true; }
  std::string description() const override {
    return "host backend, " + std::to_string(std::thread::hardware_concurrency()) + " hardware threads";
  }
  cudaStream_t stream() const noexcept override { return nullptr; }

  void* allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 256;
    void* pointer = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (pointer == nullptr) throw std::runtime_error("out of memory: " + std::to_string(bytes) + " bytes needed");
    return pointer;
  }
  void release(void* pointer) noexcept override { std::free(pointer); }
  void upload(void* destination, const void* source, std::size_t bytes) override {
    std::memcpy(destination, source, bytes);
  }
  void download(void* destination, const void* source, std::size_t bytes) override {
    std::memcpy(destination, source, bytes);
  }
  void fill_bytes(void* destination, int byte, std::size_t bytes) override { std::memset(destination, byte, bytes); }
  void synchronize() override {}

  std::vector<Timing> time_interleaved(std::span<const Call> calls, const Repeats& repeats) override {
    std::vector<Timing> timings(calls.size());
    std::vector<std::vector<double>> samples(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) timings[i].status = calls[i]();  // warms up
    const auto start = Clock::now();
    for (int n = 0; n < repeats.most && (n < repeats.least || seconds_since(start) < repeats.min_seconds); ++n) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        if (timings[i].status != GPUDNN_STATUS_SUCCESS) continue;
        const auto before = Clock::now();
        timings[i].status = calls[i]();
        samples[i].push_back(seconds_since(before));
      }
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (timings[i].status != GPUDNN_STATUS_SUCCESS) continue;
      timings[i].repeats = static_cast<int>(samples[i].size());
      timings[i].seconds = median(std::move(samples[i]));
    }
    return timings;
  }
  double empty_launch_seconds() override { return 0; }
  double copy_bytes_per_second() override { return 0; }
};

}  // namespace

std::unique_ptr<Machine> make_host_machine() { return std::make_unique<HostMachine>(); }

#ifndef GPUDNN_WITH_CUDA
std::unique_ptr<Machine> make_cuda_machine(std::string* why) {
  *why = "gpudnn-bench was built without CUDA";
  return nullptr;
}
#endif

double host_seconds_per_call(Machine& machine, const Call& call, int count) {
  constexpr int kCallsBetweenWaits = 20;
  std::vector<double> samples;
  machine.synchronize();
  for (int n = 0; n < count; ++n) {
    const auto before = Clock::now();
    const gpudnnStatus_t status = call();
    samples.push_back(seconds_since(before));
    if (status != GPUDNN_STATUS_SUCCESS) return 0;
    if (n % kCallsBetweenWaits == kCallsBetweenWaits - 1) machine.synchronize();
  }
  machine.synchronize();
  return median(std::move(samples));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

}  // namespace gpudnn::bench
