// Streams and captures by the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "soak/streams.hpp"
#include "support/backend.hpp"

namespace gpudnn::test {
namespace {

gpudnnStatus_t told(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return GPUDNN_STATUS_SUCCESS;
  (void)cudaGetLastError();
  const gpudnnStatus_t status = GPUDNN_STATUS_EXECUTION_FAILED_CUDART;
  (void)gpudnnReportError(status, (std::string(what) + ": " + cudaGetErrorString(error)).c_str());
  return status;
}

cudaStream_t stream_of(gpudnnHandle_t handle) {
  cudaStream_t stream = nullptr;
  GPUDNN_TEST_REQUIRE(gpudnnGetStream(handle, &stream));
  return stream;
}

// A capture that ends with its scope, too: the call's own code may run out of memory.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {}
  ~Capture() {
    if (open_) (void)end();
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaError_t begin() {
    const cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    open_ = error == cudaSuccess;
    return error;
  }
  cudaError_t end() {
    open_ = false;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph_);
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error;
  }
  [[nodiscard]] cudaGraph_t graph() const { return graph_; }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool open_ = false;
};

}  // namespace

bool has_streams(gpudnnHandle_t handle) {
  gpudnnBackend_t backend = GPUDNN_BACKEND_HOST;
  GPUDNN_TEST_REQUIRE(gpudnnGetBackend(handle, &backend));
  return backend == GPUDNN_BACKEND_CUDA;
}

std::size_t device_bytes_in_use(gpudnnHandle_t handle) {
  std::size_t available = 0, total = 0;
  if (!has_streams(handle)) return 0;
  require(told(cudaMemGetInfo(&available, &total), "cudaMemGetInfo"), "cudaMemGetInfo");
  return total - available;
}

gpudnnStatus_t give_stream(gpudnnHandle_t handle) {
  if (!has_streams(handle)) return GPUDNN_STATUS_SUCCESS;
  cudaStream_t stream = nullptr;
  const gpudnnStatus_t made =
      told(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return made == GPUDNN_STATUS_SUCCESS ? gpudnnSetStream(handle, stream) : made;
}

gpudnnStatus_t destroy_with_stream(gpudnnHandle_t handle) {
  const cudaStream_t stream = has_streams(handle) ? stream_of(handle) : nullptr;
  const gpudnnStatus_t ended = gpudnnDestroy(handle);
  const gpudnnStatus_t gone = stream == nullptr ? ended : told(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return ended == GPUDNN_STATUS_SUCCESS ? gone : ended;
}

gpudnnStatus_t synchronize(gpudnnHandle_t handle) {
  if (!has_streams(handle)) return GPUDNN_STATUS_SUCCESS;
  return told(cudaStreamSynchronize(stream_of(handle)), "cudaStreamSynchronize");
}

gpudnnStatus_t capture_and_replay(gpudnnHandle_t handle, const Call& call, int replays,
                                  const std::function<void()>& between) {
  const cudaStream_t stream = stream_of(handle);
  Capture capture(stream);
  gpudnnStatus_t status = told(capture.begin(), "cudaStreamBeginCapture");
  if (status != GPUDNN_STATUS_SUCCESS) return status;
  status = call(handle);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t ended = capture.end();
  if (status == GPUDNN_STATUS_SUCCESS) status = told(ended, "cudaStreamEndCapture");
  if (status == GPUDNN_STATUS_SUCCESS) {
    status = told(cudaGraphInstantiate(&executable, capture.graph(), 0), "cudaGraphInstantiate");
  }
  for (int i = 0; i < replays && status == GPUDNN_STATUS_SUCCESS; ++i) {
    between();
    status = told(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    if (status == GPUDNN_STATUS_SUCCESS) status = synchronize(handle);
  }
  if (executable != nullptr) (void)cudaGraphExecDestroy(executable);
  return status;
}

}  // namespace gpudnn::test
