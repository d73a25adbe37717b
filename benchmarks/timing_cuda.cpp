// A CUDA device as the machine. GPU time is the time between two events around the replay of a graph into which the
// call was captured, so it holds no host time; the L2 is emptied before each replay, outside the events.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <stdexcept>

#include "bench_kernels.hpp"
#include "machine.hpp"

namespace gpudnn::bench {
namespace {

using Clock = std::chrono::steady_clock;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// One call, its graph (null if it could not be captured) and its events.
struct Timed {
  const Call* call = nullptr;
  cudaGraphExec_t graph = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  std::vector<double> samples;

  explicit Timed(const Call& bound) : call(&bound) {
    check(cudaEventCreate(&start), "cudaEventCreate");
    check(cudaEventCreate(&stop), "cudaEventCreate");
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() {
    if (graph != nullptr) (void)cudaGraphExecDestroy(graph);
    (void)cudaEventDestroy(start);
    (void)cudaEventDestroy(stop);
  }
};

class CudaMachine : public Machine {
 public:
  explicit CudaMachine(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaGetDeviceProperties(&properties_, device), "cudaGetDeviceProperties");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    constexpr std::size_t kLeastFlush = std::size_t{64} << 20;
    flush_bytes_ = std::max(2 * static_cast<std::size_t>(properties_.l2CacheSize), kLeastFlush);
    flush_ = allocate(flush_bytes_ + 16);
    launch_empty(stream_);  // loads the kernels
    flush_l2();
    synchronize();
  }
  ~CudaMachine() override {
    release(flush_);
    (void)cudaStreamDestroy(stream_);
  }

  bool is_host() const noexcept override { return false; }
  cudaStream_t stream() const noexcept override { return stream_; }
  std::string description() const override;

  void* allocate(std::size_t bytes) override {
    void* pointer = nullptr;
    check(cudaMalloc(&pointer, bytes), ("cudaMalloc of " + std::to_string(bytes) + " bytes").c_str());
    return pointer;
  }
  void release(void* pointer) noexcept override { (void)cudaFree(pointer); }
  void upload(void* destination, const void* source, std::size_t bytes) override {
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, stream_), "copy to the device");
    synchronize();
  }
  void download(void* destination, const void* source, std::size_t bytes) override {
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, stream_), "copy from the device");
    synchronize();
  }
  void fill_bytes(void* destination, int byte, std::size_t bytes) override {
    check(cudaMemsetAsync(destination, byte, bytes, stream_), "cudaMemsetAsync");
  }
  void synchronize() override { check(cudaStreamSynchronize(stream_), "the device's work"); }

  std::vector<Timing> time_interleaved(std::span<const Call> calls, const Repeats& repeats) override;
  double empty_launch_seconds() override {
    const Call launch = [this] {
      launch_empty(stream_);
      return GPUDNN_STATUS_SUCCESS;
    };
    return host_seconds_per_call(*this, launch, 1000);
  }
  double copy_bytes_per_second() override;

 private:
  // Writing over the L2 alone would leave it full of dirty lines, whose way back to memory the timed call would pay.
  void flush_l2() {
    check(cudaMemsetAsync(flush_, 0, flush_bytes_, stream_), "cudaMemsetAsync");
    launch_read(flush_, flush_bytes_, static_cast<char*>(flush_) + flush_bytes_, stream_);
    check(cudaGetLastError(), "the kernel that empties the L2");
  }
  [[nodiscard]] cudaGraphExec_t capture(const Call& call);
  void run_once(Timed* timed);

  cudaDeviceProp properties_ = {};
  cudaStream_t stream_ = nullptr;
  void* flush_ = nullptr;
  std::size_t flush_bytes_ = 0;
};

std::string CudaMachine::description() const {
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  const auto dotted = [](int version) {
    return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
  };
  std::string module;
  std::ifstream("/sys/module/nvidia/version") >> module;
  return std::string(properties_.name) + ", driver " + (module.empty() ? "" : module + ' ') + "(CUDA " +
         dotted(driver) + "), runtime " + dotted(runtime);
}

cudaGraphExec_t CudaMachine::capture(const Call& call) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  // Relaxed: a library may load a module or ask for an attribute while it is captured.
  if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed) == cudaSuccess) {
    const gpudnnStatus_t status = call();
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    std::size_t nodes = 0;
    // An empty graph would time nothing: the work went to another stream.
    const bool whole = status == GPUDNN_STATUS_SUCCESS && ended == cudaSuccess && graph != nullptr &&
                       cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess && nodes > 0;
    if (whole && cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess) executable = nullptr;
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
  }
  (void)cudaGetLastError();  // a failed capture is no failure of the device
  if (executable != nullptr) check(cudaGraphUpload(executable, stream_), "cudaGraphUpload");
  return executable;
}

// The flush keeps the device busy for tens of microseconds, in which the host queues the rest: the events then enclose
// no wait for the host.
void CudaMachine::run_once(Timed* timed) {
  flush_l2();
  check(cudaEventRecord(timed->start, stream_), "cudaEventRecord");
  if (timed->graph != nullptr) {
    check(cudaGraphLaunch(timed->graph, stream_), "cudaGraphLaunch");
  } else {
    (void)(*timed->call)();
  }
  check(cudaEventRecord(timed->stop, stream_), "cudaEventRecord");
}

std::vector<Timing> CudaMachine::time_interleaved(std::span<const Call> calls, const Repeats& repeats) {
  std::vector<Timing> timings(calls.size());
  std::vector<std::unique_ptr<Timed>> timed(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    timings[i].status = calls[i]();  // warms up
    synchronize();
    if (timings[i].status != GPUDNN_STATUS_SUCCESS) continue;
    timed[i] = std::make_unique<Timed>(calls[i]);
    timed[i]->graph = capture(calls[i]);
    timings[i].captured = timed[i]->graph != nullptr;
    run_once(timed[i].get());
  }
  synchronize();
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (int n = 0; n < repeats.most && (n < repeats.least || elapsed() < repeats.min_seconds); ++n) {
    for (const auto& each : timed) {
      if (each != nullptr) run_once(each.get());
    }
    synchronize();
    for (const auto& each : timed) {
      if (each == nullptr) continue;
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, each->start, each->stop), "cudaEventElapsedTime");
      each->samples.push_back(1e-3 * static_cast<double>(milliseconds));
    }
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (timed[i] == nullptr) continue;
    timings[i].repeats = static_cast<int>(timed[i]->samples.size());
    timings[i].seconds = median(std::move(timed[i]->samples));
  }
  return timings;
}

double CudaMachine::copy_bytes_per_second() {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  const Buffer source(*this, kBytes);
  const Buffer destination(*this, kBytes);
  fill_bytes(source.get(), 1, kBytes);
  const Call copy = [&] {
    const cudaError_t error =
        cudaMemcpyAsync(destination.get(), source.get(), kBytes, cudaMemcpyDeviceToDevice, stream_);
    return error == cudaSuccess ? GPUDNN_STATUS_SUCCESS : GPUDNN_STATUS_EXECUTION_FAILED;
  };
  const std::vector<Timing> timings = time_interleaved({&copy, 1}, {.min_seconds = 0.05, .least = 10, .most = 50});
  return timings[0].repeats > 0 ? 2.0 * static_cast<double>(kBytes) / timings[0].seconds : 0;
}

}  // namespace

std::unique_ptr<Machine> make_cuda_machine(std::string* why) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    *why = error != cudaSuccess ? cudaGetErrorString(error) : "there is no CUDA device";
    return nullptr;
  }
  return std::make_unique<CudaMachine>(0);
}

}  // namespace gpudnn::bench
