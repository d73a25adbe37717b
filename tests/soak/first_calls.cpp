// Each allocation of a process's first calls fails once, in a process of its own: the call comes back as ALLOC_FAILED
// with a text, or does without; the same call after it gives the right result.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gpudnn/gpudnn.h"
#include "soak/failing_memory.hpp"
#include "soak/graphs.hpp"

namespace gpudnn::test {
namespace {

constexpr int kWrong = 1;
constexpr int kNothingFailed = 2;  // the calls make fewer allocations

// A handle, descriptors and a convolution that the host's threads share: each output is the sum of 64 ones.
gpudnnStatus_t convolve(bool* right) {
  constexpr int kChannels = 64, kSize = 32;
  static float x[kChannels * kSize * kSize], w[kChannels * kChannels], y[kChannels * kSize * kSize];
  for (float& value : x) value = 1;
  for (float& value : w) value = 1;
  gpudnnHandle_t handle = nullptr;
  gpudnnTensorDescriptor_t image = nullptr;
  gpudnnFilterDescriptor_t filter = nullptr;
  gpudnnConvolutionDescriptor_t convolution = nullptr;
  const float one = 1, zero = 0;
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  const auto then = [&status](const auto& call) {
    if (status == GPUDNN_STATUS_SUCCESS) status = call();
  };
  then([&] { return gpudnnCreate(&handle); });
  then([&] { return gpudnnCreateTensorDescriptor(&image); });
  then([&] {
    return gpudnnSetTensor4dDescriptor(image, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, kChannels, kSize, kSize);
  });
  then([&] { return gpudnnCreateFilterDescriptor(&filter); });
  then([&] {
    return gpudnnSetFilter4dDescriptor(filter, GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, kChannels, kChannels, 1, 1);
  });
  then([&] { return gpudnnCreateConvolutionDescriptor(&convolution); });
  then([&] {
    return gpudnnSetConvolution2dDescriptor(convolution, 0, 0, 1, 1, 1, 1, GPUDNN_CROSS_CORRELATION, GPUDNN_DATA_FLOAT);
  });
  then([&] {
    return gpudnnConvolutionForward(handle, &one, image, x, filter, w, convolution,
                                    GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, image, y);
  });
  *right = status == GPUDNN_STATUS_SUCCESS;
  for (const float value : y) *right = *right && value == kChannels;
  if (convolution != nullptr) (void)gpudnnDestroyConvolutionDescriptor(convolution);
  if (filter != nullptr) (void)gpudnnDestroyFilterDescriptor(filter);
  if (image != nullptr) (void)gpudnnDestroyTensorDescriptor(image);
  if (handle != nullptr) (void)gpudnnDestroy(handle);
  return status;
}

// The same of a graph; its values are compared with those of a second run.
template <int kWhich>
gpudnnStatus_t run_a_graph(bool* right) {
  gpudnnHandle_t handle = nullptr;
  gpudnnStatus_t status = gpudnnCreate(&handle);
  if (status != GPUDNN_STATUS_SUCCESS) return status;
  std::vector<float> first, second;
  status = run_graph(handle, kWhich, &first);
  if (status == GPUDNN_STATUS_SUCCESS) {
    fail_allocation(0);
    *right = run_graph(handle, kWhich, &second) == GPUDNN_STATUS_SUCCESS && agree(first, second);
  }
  (void)gpudnnDestroy(handle);
  return status;
}

int run_child(gpudnnStatus_t (*calls)(bool*), std::uint32_t n) {
  protect_this_thread(1);
  fail_allocation(n);
  bool right = false;
  const gpudnnStatus_t status = calls(&right);
  fail_allocation(0);
  const bool failed = memory_counts().failed > 0;
  if (status == GPUDNN_STATUS_SUCCESS && !right) return kWrong;
  if (status != GPUDNN_STATUS_SUCCESS) {
    char text[256] = "";
    gpudnnGetLastErrorString(text, sizeof text);
    if (status != GPUDNN_STATUS_ALLOC_FAILED || !failed || text[0] == 0) {
      return std::fprintf(stderr, "status %d: %s\n", static_cast<int>(status), text), kWrong;
    }
  }
  right = false;
  if (calls(&right) != GPUDNN_STATUS_SUCCESS || !right) return kWrong;
  return failed ? 0 : kNothingFailed;
}

// Fails allocation 1, 1 + step, ... until there are no more.
int fail_each(const char* name, gpudnnStatus_t (*calls)(bool*), std::uint32_t step) {
  int failures = 0;
  std::uint32_t n = 1;
  for (;; n += step) {
    const pid_t child = fork();
    if (child == 0) _exit(run_child(calls, n));
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNothingFailed) break;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    ++failures;
    std::fprintf(stderr, "FAILURE: %s with allocation %u failing: the process ended with %d\n", name, n, status);
  }
  std::printf("%s: allocations up to %u failed in turn, %d failures\n", name, n, failures);
  std::fflush(stdout);
  return n > 10 ? failures : failures + 1;  // fewer were no test
}

}  // namespace
}  // namespace gpudnn::test

int main() {
  setenv("GPUDNN_BACKEND", "host", 1);
  setenv("GPUDNN_HOST_THREADS", "4", 1);
  const int failures = gpudnn::test::fail_each("a convolution", gpudnn::test::convolve, 1) +
                       gpudnn::test::fail_each("a convolution's graph", gpudnn::test::run_a_graph<0>, 1) +
                       gpudnn::test::fail_each("a matrix product's graph", gpudnn::test::run_a_graph<1>, 1) +
                       gpudnn::test::fail_each("a norm's graph", gpudnn::test::run_a_graph<2>, 1) +
                       gpudnn::test::fail_each("attention's graph", gpudnn::test::run_a_graph<3>, 1) +
                       gpudnn::test::fail_each("a reduction's graph", gpudnn::test::run_a_graph<4>, 1);
  return failures == 0 ? 0 : 1;
}
