// Each allocation of a process's first calls fails once, in a process of its own: the call comes back as ALLOC_FAILED
// with a text, or does without; the same call after it gives the right result. So do Set and Finalize of a descriptor
// that was there before: it stays as it was.
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

std::uint32_t to_fail = 0;  // which allocation of the one call that set_again and finalize_again try

// A backend descriptor. `status` is the first failure of what was asked of it.
struct Descriptor {
  gpudnnBackendDescriptor_t object = nullptr;
  gpudnnStatus_t status;

  explicit Descriptor(gpudnnBackendDescriptorType_t kind) : status(gpudnnBackendCreateDescriptor(kind, &object)) {}
  ~Descriptor() { (void)gpudnnBackendDestroyDescriptor(object); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void set(gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type, std::int64_t count, const void* from) {
    if (status == GPUDNN_STATUS_SUCCESS) status = gpudnnBackendSetAttribute(object, name, type, count, from);
  }
  template <class T>
  void set(gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
  void set(gpudnnBackendAttributeName_t name, const Descriptor& other) {
    if (status == GPUDNN_STATUS_SUCCESS) status = other.status;
    set(name, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.object);
  }
  void finalize() {
    if (status == GPUDNN_STATUS_SUCCESS) status = gpudnnBackendFinalize(object);
  }
  [[nodiscard]] std::int64_t count(gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type) const {
    std::int64_t count = -1;
    (void)gpudnnBackendGetAttribute(object, name, type, 0, &count, nullptr);
    return count;
  }
};

// A variant pack with 3 pointers and ids is given 100 ids. Without memory for them, it has its 3, and can be finalized.
gpudnnStatus_t set_again(bool* right) {
  constexpr std::int64_t kMany = 100, kFew = 3;
  static float memory;
  std::int64_t ids[kMany];
  void* pointers[kMany];
  for (std::int64_t i = 0; i < kMany; ++i) ids[i] = i + 1, pointers[i] = &memory;
  Descriptor pack(GPUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, kFew, ids);
  pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, kFew, pointers);
  if (pack.status != GPUDNN_STATUS_SUCCESS) return pack.status;
  fail_allocation(to_fail);
  const gpudnnStatus_t status =
      gpudnnBackendSetAttribute(pack.object, GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, kMany, ids);
  fail_allocation(0);
  const std::int64_t now = status == GPUDNN_STATUS_SUCCESS ? kMany : kFew;
  pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, now, pointers);
  pack.finalize();
  *right = pack.count(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64) == now;
  if (pack.status == GPUDNN_STATUS_SUCCESS && !*right) return GPUDNN_STATUS_INTERNAL_ERROR;
  return pack.status != GPUDNN_STATUS_SUCCESS ? pack.status : status;
}

// An engine of a convolution's graph and a choice of a knob: Finalize of their config, and once more where it failed.
gpudnnStatus_t finalize_again(bool* right) {
  gpudnnHandle_t handle = nullptr;
  if (const gpudnnStatus_t status = gpudnnCreate(&handle); status != GPUDNN_STATUS_SUCCESS) return status;
  const auto describe = [](Descriptor& tensor, std::int64_t id, std::int64_t first, std::int64_t size) {
    const std::int64_t dims[] = {first, 8, size, size}, strides[] = {8 * size * size, size * size, size, 1};
    tensor.set(GPUDNN_ATTR_TENSOR_UNIQUE_ID, GPUDNN_TYPE_INT64, id);
    tensor.set(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, GPUDNN_DATA_FLOAT);
    tensor.set(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, GPUDNN_TYPE_INT64, std::int64_t{16});
    tensor.set(GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_TYPE_INT64, 4, dims);
    tensor.set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, 4, strides);
    tensor.finalize();
  };
  Descriptor x(GPUDNN_BACKEND_TENSOR_DESCRIPTOR), w(GPUDNN_BACKEND_TENSOR_DESCRIPTOR),
      y(GPUDNN_BACKEND_TENSOR_DESCRIPTOR);
  describe(x, 'x', 1, 6);
  describe(w, 'w', 8, 1);
  describe(y, 'y', 1, 6);
  Descriptor convolution(GPUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const std::int64_t zeros[] = {0, 0}, ones[] = {1, 1};
  convolution.set(GPUDNN_ATTR_CONVOLUTION_COMP_TYPE, GPUDNN_TYPE_DATA_TYPE, GPUDNN_DATA_FLOAT);
  convolution.set(GPUDNN_ATTR_CONVOLUTION_CONV_MODE, GPUDNN_TYPE_CONVOLUTION_MODE, GPUDNN_CROSS_CORRELATION);
  convolution.set(GPUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, GPUDNN_TYPE_INT64, std::int64_t{2});
  convolution.set(GPUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, GPUDNN_TYPE_INT64, 2, zeros);
  convolution.set(GPUDNN_ATTR_CONVOLUTION_POST_PADDINGS, GPUDNN_TYPE_INT64, 2, zeros);
  convolution.set(GPUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, GPUDNN_TYPE_INT64, 2, ones);
  convolution.set(GPUDNN_ATTR_CONVOLUTION_DILATIONS, GPUDNN_TYPE_INT64, 2, ones);
  convolution.finalize();
  Descriptor operation(GPUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution);
  operation.set(GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  operation.set(GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  operation.set(GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  operation.finalize();
  Descriptor graph(GPUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(GPUDNN_ATTR_OPERATIONGRAPH_HANDLE, GPUDNN_TYPE_HANDLE, handle);
  graph.set(GPUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();
  Descriptor engine(GPUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(GPUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
  engine.set(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX, GPUDNN_TYPE_INT64, std::int64_t{213});  // host_direct
  engine.finalize();
  Descriptor knob(GPUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  knob.set(GPUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, GPUDNN_TYPE_KNOB_TYPE, GPUDNN_KNOB_TYPE_TILE_SIZE);
  knob.set(GPUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, GPUDNN_TYPE_INT64, std::int64_t{-1});
  knob.finalize();
  Descriptor config(GPUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(GPUDNN_ATTR_ENGINECFG_ENGINE, engine);
  config.set(GPUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knob);
  gpudnnStatus_t status = config.status;
  if (status == GPUDNN_STATUS_SUCCESS) {
    fail_allocation(to_fail);
    status = gpudnnBackendFinalize(config.object);
    fail_allocation(0);
    if (status == GPUDNN_STATUS_ALLOC_FAILED) config.finalize();
    Descriptor plan(GPUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(GPUDNN_ATTR_EXECUTION_PLAN_HANDLE, GPUDNN_TYPE_HANDLE, handle);
    plan.set(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    plan.finalize();
    *right = plan.status == GPUDNN_STATUS_SUCCESS;
    if (!*right) status = plan.status;
  }
  (void)gpudnnDestroy(handle);
  return status;
}

int run_child(gpudnnStatus_t (*calls)(bool*), bool one_call, std::uint32_t n) {
  protect_this_thread(1);
  to_fail = one_call ? n : 0;
  fail_allocation(one_call ? 0 : n);
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
  to_fail = 0;
  if (calls(&right) != GPUDNN_STATUS_SUCCESS || !right) return kWrong;
  return failed ? 0 : kNothingFailed;
}

// Fails allocation 1, 2, ... until there are no more: of all calls, or of the one that is tried.
int fail_each(const char* name, gpudnnStatus_t (*calls)(bool*), bool one_call = false) {
  int failures = 0;
  std::uint32_t n = 1;
  for (; failures < 20; ++n) {
    const pid_t child = fork();
    if (child == 0) _exit(run_child(calls, one_call, n));
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNothingFailed) break;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    ++failures;
    std::fprintf(stderr, "FAILURE: %s with allocation %u failing: the process ended with %d\n", name, n, status);
  }
  std::printf("%s: allocations up to %u failed in turn, %d failures\n", name, n, failures);
  std::fflush(stdout);
  return n > (one_call ? 2 : 10) ? failures : failures + 1;  // fewer were no test
}

}  // namespace
}  // namespace gpudnn::test

int main() {
  setenv("GPUDNN_BACKEND", "host", 1);
  setenv("GPUDNN_HOST_THREADS", "4", 1);
  const int failures = gpudnn::test::fail_each("a convolution", gpudnn::test::convolve) +
                       gpudnn::test::fail_each("a convolution's graph", gpudnn::test::run_a_graph<0>) +
                       gpudnn::test::fail_each("a matrix product's graph", gpudnn::test::run_a_graph<1>) +
                       gpudnn::test::fail_each("a norm's graph", gpudnn::test::run_a_graph<2>) +
                       gpudnn::test::fail_each("attention's graph", gpudnn::test::run_a_graph<3>) +
                       gpudnn::test::fail_each("a reduction's graph", gpudnn::test::run_a_graph<4>) +
                       gpudnn::test::fail_each("Set of an attribute again", gpudnn::test::set_again, true) +
                       gpudnn::test::fail_each("Finalize of a config", gpudnn::test::finalize_again, true);
  return failures == 0 ? 0 : 1;
}
