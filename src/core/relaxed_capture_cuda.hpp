// Calls that allocate or make a context, while another thread may have a stream captured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gpudnn::cuda {

// A capture in the global mode forbids such calls to all threads, and ends where one is made. While this lives they are
// allowed to the calling thread, and the capture goes on.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept : exchanged_(exchange()) {}
  ~RelaxedCapture() {
    if (exchanged_) (void)exchange();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  bool exchange() noexcept {
    if (cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess) return true;
    (void)cudaGetLastError();
    return false;
  }

  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool exchanged_;
};

}  // namespace gpudnn::cuda
