// Handles on a second device: they work while another device is current, and leave the caller's device as it was.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "runtime/every_operation.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr int kFirst = 0;
constexpr int kSecond = 1;

class SecondDevice : public testing::Test {
 protected:
  void SetUp() override {
    GPUDNN_NEEDS_GPU();
    int count = 0;
    ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    if (count < 2) GTEST_SKIP() << "needs two GPUs; this machine has " << count;
    memory_ = on_second();
  }

  // A handle on the second device; the first one is current again after it.
  static std::unique_ptr<Backend> on_second() {
    EXPECT_EQ(cudaSetDevice(kSecond), cudaSuccess);
    auto backend = std::make_unique<Backend>();
    EXPECT_EQ(cudaSetDevice(kFirst), cudaSuccess);
    return backend;
  }
  static int current() {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    return device;
  }
  static std::string verdict(const PreparedCall& call) {
    Outcome outcome;
    outcome.values = call.output->values();
    outcome.damage = call.output->damage_outside_elements();
    return judge(call.output->geometry(), outcome, call.expected);
  }

  std::unique_ptr<Backend> memory_;
};

TEST_F(SecondDevice, EveryOperationLeavesTheCallersDeviceCurrent) {
  const std::vector<PreparedCall> calls = every_operation(*memory_);
  EXPECT_EQ(current(), kFirst);
  for (const PreparedCall& call : calls) {
    SCOPED_TRACE(call.name);
    const auto fresh = on_second();
    // A thread that never called the runtime has no context, which plans need.
    std::thread([&] {
      EXPECT_EQ(current(), kFirst);
      EXPECT_EQ(call.call(fresh->handle()), GPUDNN_STATUS_SUCCESS) << take_error_text();
      EXPECT_EQ(current(), kFirst) << "after the first call";
      EXPECT_EQ(call.call(fresh->handle()), GPUDNN_STATUS_SUCCESS) << take_error_text();
      EXPECT_EQ(current(), kFirst) << "after the second call";
    }).join();
    EXPECT_EQ(current(), kFirst);
    ASSERT_EQ(cudaSetDevice(kSecond), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaSetDevice(kFirst), cudaSuccess);
    EXPECT_EQ(verdict(call), "");
  }
}

TEST_F(SecondDevice, MemoryAndQueriesLeaveTheCallersDeviceCurrent) {
  std::thread([&] {
    void* memory = nullptr;
    char bytes[16] = {};
    EXPECT_EQ(gpudnnMalloc(memory_->handle(), &memory, sizeof bytes), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(current(), kFirst);
    cudaPointerAttributes about = {};
    EXPECT_EQ(cudaPointerGetAttributes(&about, memory), cudaSuccess);
    EXPECT_EQ(about.device, kSecond);
    EXPECT_EQ(gpudnnMemcpy(memory_->handle(), memory, bytes, sizeof bytes, GPUDNN_MEMCPY_HOST_TO_DEVICE),
              GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(gpudnnFree(memory_->handle(), memory), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(current(), kFirst);
    const TensorDescriptor x(GPUDNN_DATA_HALF, 8, 64, 28, 28);
    const FilterDescriptor w(GPUDNN_DATA_HALF, 64, 64, 3, 3);
    const ConvolutionDescriptor convolution(1, 1, 1);
    gpudnnConvolutionFwdAlgoPerf_t rows[8];
    int count = 0;
    EXPECT_EQ(gpudnnGetConvolutionForwardAlgorithm_v7(memory_->handle(), x, w, convolution, x, 8, &count, rows),
              GPUDNN_STATUS_SUCCESS)
        << take_error_text();
    EXPECT_EQ(current(), kFirst);
    EXPECT_EQ(gpudnnFindConvolutionForwardAlgorithm(memory_->handle(), x, w, convolution, x, 8, &count, rows),
              GPUDNN_STATUS_SUCCESS)
        << take_error_text();
    EXPECT_EQ(current(), kFirst);
  }).join();
}

}  // namespace
}  // namespace gpudnn::test
